import { describe, expect, it } from "vitest";
import { ackOf, decodeJSON, Decoder, encode, encodeJSON, FrameError, Kind, MAX_FRAME } from "./framing";

const bytes = (...b: number[]) => Uint8Array.from(b);
const text = (s: string) => new TextEncoder().encode(s);
const join = (...parts: Uint8Array[]) => Uint8Array.from(parts.flatMap((p) => [...p]));

describe("encode", () => {
  it("writes kind, big-endian length and payload", () => {
    expect([...encode(Kind.stdin, text("hi"))]).toEqual([2, 0, 0, 0, 2, 104, 105]);
    expect([...encode(Kind.eof)]).toEqual([3, 0, 0, 0, 0]);
    expect([...encode(Kind.stdin, new Uint8Array(MAX_FRAME)).subarray(0, 5)]).toEqual([2, 0, 1, 0, 0]);
  });
  it("refuses a payload over the limit", () => {
    expect(() => encode(Kind.stdin, new Uint8Array(MAX_FRAME + 1))).toThrow(FrameError);
  });
  it("writes JSON as UTF-8", () => {
    expect(new Decoder().push(encodeJSON(Kind.start, { session: "ü" }))).toMatchObject([{ kind: Kind.start, payload: text('{"session":"ü"}') }]);
  });
});

describe("Decoder", () => {
  const stream = join(encode(Kind.stdout, text("hello")), encode(Kind.ack, bytes(0, 0, 1, 0)), encode(Kind.stdout), encodeJSON(Kind.exit, { code: 7, seconds: 1 }));
  const summary = (d: Decoder, ...chunks: Uint8Array[]) => chunks.flatMap((c) => d.push(c)).map((f) => [f.kind, new TextDecoder().decode(f.payload)]);
  const whole = summary(new Decoder(), stream);

  it("reads several frames of one message", () => {
    expect(whole).toEqual([
      [4, "hello"],
      [6, "\0\0\u0001\0"],
      [4, ""],
      [9, '{"code":7,"seconds":1}'],
    ]);
  });
  it("does not care where the messages are cut", () => {
    for (let cut = 0; cut <= stream.length; cut++) {
      expect(summary(new Decoder(), stream.subarray(0, cut), stream.subarray(cut))).toEqual(whole);
    }
    expect(summary(new Decoder(), ...[...stream].map((b) => bytes(b)))).toEqual(whole);
  });
  it("hands out payloads that later messages do not change", () => {
    const d = new Decoder();
    const message = encode(Kind.stdout, text("first"));
    const [frame] = d.push(message);
    message.fill(0);
    d.push(encode(Kind.stdout, text("other")));
    expect(new TextDecoder().decode(frame?.payload)).toBe("first");
  });
  it("takes a frame of the largest size", () => {
    expect(new Decoder().push(encode(Kind.stdout, new Uint8Array(MAX_FRAME)))[0]?.payload.length).toBe(MAX_FRAME);
  });
  it.each([
    ["over the limit by one", bytes(4, 0, 1, 0, 1)],
    ["of four gigabytes", bytes(4, 255, 255, 255, 255)],
    ["of kind 0", bytes(0, 0, 0, 0, 0)],
    ["of kind 11", bytes(11, 0, 0, 0, 0)],
  ])("refuses a frame %s as soon as its header is there", (_, header) => {
    const d = new Decoder();
    expect(d.push(header.subarray(0, 4))).toEqual([]);
    expect(() => d.push(header.subarray(4))).toThrow(FrameError);
  });
});

describe("payloads", () => {
  it("reads acknowledgements", () => {
    expect(ackOf({ kind: Kind.ack, payload: bytes(0x80, 0, 0, 1) })).toBe(0x80000001);
    expect(() => ackOf({ kind: Kind.ack, payload: bytes(1, 2, 3) })).toThrow(FrameError);
  });
  it("refuses what is not JSON or not UTF-8", () => {
    expect(() => decodeJSON({ kind: Kind.exit, payload: bytes(123) })).toThrow(FrameError);
    expect(() => decodeJSON({ kind: Kind.exit, payload: bytes(34, 0xff, 34) })).toThrow(FrameError);
  });
});
