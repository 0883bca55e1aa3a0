import { afterEach, describe, expect, it, vi } from "vitest";
import { backoff } from "./backoff";
import { json, Problem, request, toProblem, Unreachable } from "./http";

afterEach(() => vi.unstubAllGlobals());

describe("toProblem", () => {
  it("keeps the server's words, code and field", async () => {
    const p = await toProblem(new Response('{"detail":"no: because: do this","code":"invalidRequest","field":"pattern","status":400}', { status: 400 }));
    expect([p.message, p.code, p.field, p.status]).toEqual(["no: because: do this", "invalidRequest", "pattern", 400]);
  });
  it.each([
    ["a proxy's page", "<h1>Bad Gateway</h1>", 502, "internal"],
    ["another JSON", '{"error":1}', 500, "internal"],
    ["a bare 401", "", 401, "unauthenticated"],
  ])("makes one of %s", async (_, body, status, code) => {
    const p = await toProblem(new Response(body, { status }));
    expect(p.code).toBe(code);
    expect(p.message).toContain(String(status));
  });
});

describe("request", () => {
  it("tells an unreachable server from a refusal", async () => {
    vi.stubGlobal("fetch", () => Promise.reject(new TypeError("Failed to fetch")));
    await expect(request("/v1/server")).rejects.toBeInstanceOf(Unreachable);
    vi.stubGlobal("fetch", () => Promise.resolve(new Response('{"detail":"d","code":"gone"}', { status: 410 })));
    await expect(request("/v1/server")).rejects.toBeInstanceOf(Problem);
  });
  it("does not take an answer for JSON that is not", async () => {
    vi.stubGlobal("fetch", () => Promise.resolve(new Response("<html>")));
    await expect(json("/v1/server")).rejects.toThrow(/not JSON/);
  });
});

describe("backoff", () => {
  it("grows to its limit and never past it", () => {
    const waits = [1, 2, 3, 4, 5, 6, 7, 30].map((n) => backoff(n, () => 0));
    expect(waits).toEqual([250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
    expect(backoff(30, () => 1)).toBe(7500);
  });
});
