import { describe, expect, it } from "vitest";
import type { EgressEvent } from "./api/types";
import { admitPattern, byHost, mark, matches, reasonText, target } from "./egress";

const event = (e: Partial<EgressEvent>): EgressEvent => ({ seq: 1, time: "", verdict: "deny", reason: "notAdmitted", protocol: "tcp", ...e });

describe("admitPattern", () => {
  it.each<[string, Partial<EgressEvent>, string | undefined]>([
    ["a name on 443", { host: "example.com", port: 443 }, "example.com"],
    ["a name on 80", { host: "example.com", port: 80 }, "example.com"],
    ["a name on another port", { host: "example.com", port: 8443 }, "example.com:8443"],
    ["a port that is not admitted", { host: "example.com", port: 22, reason: "portNotAdmitted" }, "example.com:22"],
    ["an address", { reason: "rawAddress", address: "10.0.0.5", port: 443 }, undefined],
    ["a private range", { reason: "forbiddenRange", host: "intern.example.com", port: 443 }, undefined],
    ["a protocol", { reason: "protocol", protocol: "icmp", address: "1.1.1.1" }, undefined],
    ["an upstream's refusal", { reason: "upstreamRefused", host: "example.com", port: 443 }, undefined],
    ["what was let through", { verdict: "allow", reason: "admitted", host: "example.com", port: 443 }, undefined],
  ])("of %s", (_, e, want) => expect(admitPattern(event(e))).toBe(want));
});

describe("mark", () => {
  it.each<[Partial<EgressEvent>, string]>([
    [{ verdict: "deny" }, "denied"],
    [{ verdict: "allow", reason: "lookupFailed" }, "failed"],
    [{ verdict: "allow", reason: "upstreamRefused" }, "failed"],
    [{ verdict: "allow", reason: "closed" }, "allowed"],
  ])("%j", (e, want) => expect(mark(event(e))).toBe(want));
});

describe("target", () => {
  it.each<[Partial<EgressEvent>, string]>([
    [{ host: "example.com", port: 443 }, "example.com"],
    [{ host: "example.com", port: 8080 }, "example.com:8080"],
    [{ address: "2001:db8::1", port: 22 }, "[2001:db8::1]:22"],
    [{ address: "10.0.0.1" }, "10.0.0.1"],
    [{}, "unknown"],
  ])("%j", (e, want) => expect(target(event(e))).toBe(want));
});

describe("matches", () => {
  const e = event({ host: "packages.example.org", port: 443 });
  it("looks at what is shown, whatever the case", () => {
    expect(matches(e, "all", " PACKAGES ")).toBe(true);
    expect(matches(e, "all", "not on the list")).toBe(true);
    expect(matches(e, "all", "pypi")).toBe(false);
  });
  it("can show refusals only", () => {
    expect(matches(e, "denied", "")).toBe(true);
    expect(matches(event({ verdict: "allow" }), "denied", "")).toBe(false);
  });
  it("can show what was let through only", () => {
    expect(matches(e, "allowed", "")).toBe(false);
    expect(matches(event({ verdict: "allow" }), "allowed", "")).toBe(true);
  });
});

it("sums up by host and port, the last first, and knows what would admit it", () => {
  const lines = [
    event({ host: "a.example.com", port: 443, count: 3 }),
    event({ host: "b.example.com", port: 443, verdict: "allow", reason: "admitted" }),
    event({ host: "b.example.com", port: 443, verdict: "allow", reason: "closed", bytesOut: 10, bytesIn: 2000 }),
    event({ host: "a.example.com", port: 8443, reason: "portNotAdmitted" }),
    event({ host: "a.example.com", port: 443 }),
  ];
  expect(byHost(lines)).toMatchObject([
    { target: "a.example.com", refused: 4, connected: 0, bytesOut: 0, bytesIn: 0, pattern: "a.example.com" },
    { target: "a.example.com:8443", refused: 1, connected: 0, bytesOut: 0, bytesIn: 0, pattern: "a.example.com:8443" },
    { target: "b.example.com", refused: 0, connected: 1, bytesOut: 10, bytesIn: 2000, pattern: undefined },
  ]);
});

it("shows a reason that it does not know", () => expect(reasonText("<b>new</b>")).toBe("<b>new</b>"));
