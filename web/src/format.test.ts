import { describe, expect, it } from "vitest";
import { ago, amount, bytes, countdown, ends, forWords, imageRef, megabytes, plural, shortDigest, span, took } from "./format";

describe("format", () => {
  it.each([[0, "0 B"], [1023, "1023 B"], [1024, "1.0 KB"], [1536, "1.5 KB"], [150 * 1024 ** 2, "150 MB"], [3 * 1024 ** 4, "3.0 TB"]])("bytes %d", (n, want) => expect(bytes(n)).toBe(want));
  it.each([[-5, "0 s"], [9.9, "9 s"], [61, "1 min 01 s"], [28_800, "8 h 00 min"], [90_000, "1 d 1 h"]])("countdown %d", (n, want) => expect(countdown(n)).toBe(want));
  it("ago", () => {
    const now = Date.parse("2026-01-02T00:00:00Z");
    expect(ago("2026-01-01T23:59:58Z", now)).toBe("just now");
    expect(ago("2026-01-01T23:59:00Z", now)).toBe("1 min ago");
    expect(ago("2026-01-01T00:00:00Z", now)).toBe("1 d ago");
    expect(ago("2027-01-01T00:00:00Z", now)).toBe("just now");
    expect(ago("nonsense", now)).toBe("at an unknown time");
  });
  it("amount", () => {
    expect(amount(1024, 2048, "bytes")).toBe("1.0 KB of 2.0 KB");
    expect(amount(2, 3, "steps")).toBe("2 of 3 steps");
    expect(amount(2, 0, undefined)).toBe("2 steps");
  });
  it("imageRef", () => {
    expect(imageRef("terminal@sha256:abc")).toEqual({ name: "terminal", digest: "sha256:abc" });
    expect(imageRef("terminal")).toEqual({ name: "terminal", digest: "" });
    expect(shortDigest("sha256:0123456789abcdef")).toBe("0123456789ab");
  });
  it("plural and megabytes", () => {
    expect(plural(1, "machine")).toBe("1 machine");
    expect(plural(0, "machine")).toBe("0 machines");
    expect(megabytes(512)).toBe("512 MB");
  });
});

describe("spans", () => {
  const now = Date.parse("2026-01-01T12:00:00Z");
  const at = (seconds: number) => new Date(now + seconds * 1000).toISOString();
  it.each<[number, string]>([[-1, "ending"], [0, "ending"], [40, "ends in 40 s"], [541, "ends in 10 min"], [5400, "ends in 2 h"], [200_000, "ends in 3 d"]])("%d seconds before its end", (s, want) =>
    expect(ends(at(s), now)).toBe(want),
  );
  it("says that a moment that is none is ending", () => expect(ends("nonsense", now)).toBe("ending"));
  it.each<[number, string]>([[0, "while the machine lives"], [600, "for 10 min"], [3600, "for 1 h"], [90, "for 1 min 30 s"], [86_400, "for 1 d"]])("an admission of %d seconds", (s, want) =>
    expect(forWords(s)).toBe(want),
  );
  it("writes one unit where that is exact", () => expect(span(7200)).toBe("2 h"));
  it("tells how long something took, unless it was over at once", () => {
    expect(took(at(0), at(0.31))).toBe("in 0.3 s");
    expect(took(at(0), at(90))).toBe("in 1 min 30 s");
    expect(took(at(0), at(0.02))).toBe("");
    expect(took(at(5), at(0))).toBe("");
  });
});
