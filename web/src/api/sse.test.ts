import { describe, expect, it } from "vitest";
import { Decoder, MAX_EVENT, messages } from "./sse";

const stream = 'event: step\ndata: {"text":"one"}\n\n: comment\nevent:step\r\ndata: a\r\ndata: b\r\n\r\ndata:plain\n\nevent: done\ndata: {}\n\n';
const want = [
  { event: "step", data: '{"text":"one"}' },
  { event: "step", data: "a\nb" },
  { event: "message", data: "plain" },
  { event: "done", data: "{}" },
];

describe("Decoder", () => {
  it("does not care where the text is cut", () => {
    for (let cut = 0; cut <= stream.length; cut++) {
      const d = new Decoder();
      expect([...d.push(stream.slice(0, cut)), ...d.push(stream.slice(cut))]).toEqual(want);
    }
  });
  it("keeps back an event that has not ended", () => {
    expect(new Decoder().push("event: done\ndata: {}\n")).toEqual([]);
  });
  it("refuses an event without end", () => {
    const d = new Decoder();
    expect(() => {
      for (let i = 0; i <= MAX_EVENT; i += 65_536) d.push(`data: ${"x".repeat(65_536)}\n`);
    }).toThrow(/larger/);
    expect(() => new Decoder().push("x".repeat(MAX_EVENT + 1))).toThrow(/larger/);
  });
});

describe("messages", () => {
  it("reads a body whose chunks split a character", async () => {
    const raw = new TextEncoder().encode("data: ü\n\n");
    const body = new ReadableStream<Uint8Array>({
      start(c) {
        for (const b of raw) c.enqueue(Uint8Array.of(b));
        c.close();
      },
    });
    const got = [];
    for await (const m of messages(new Response(body))) got.push(m);
    expect(got).toEqual([{ event: "message", data: "ü" }]);
  });
});
