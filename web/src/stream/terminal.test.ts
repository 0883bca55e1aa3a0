import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ProblemBody } from "../api/types";
import { Decoder, encode, encodeJSON, Kind, WINDOW, type Frame } from "./framing";
import { isReport, TerminalStream, type TerminalState } from "./terminal";

/** The other end of the stream: keeps what was sent, says what the test wants. */
class FakeSocket {
  static all: FakeSocket[] = [];
  binaryType = "";
  onopen?: () => void;
  onclose?: () => void;
  onmessage?: (e: { data: unknown }) => void;
  closed = false;
  #decoder = new Decoder();
  frames: Frame[] = [];
  constructor() {
    FakeSocket.all.push(this);
  }
  send(data: Uint8Array) {
    this.frames.push(...this.#decoder.push(data));
  }
  close() {
    this.closed = true;
  }
  say(...frames: Uint8Array[]) {
    for (const f of frames) this.onmessage?.({ data: f.slice().buffer });
  }
  stdin() {
    return this.frames.filter((f) => f.kind === Kind.stdin).reduce((n, f) => n + f.payload.length, 0);
  }
  last() {
    const f = this.frames.at(-1);
    return f && [f.kind, new TextDecoder().decode(f.payload)];
  }
}

const text = (s: string) => new TextEncoder().encode(s);
const ack = (n: number) => {
  const b = new Uint8Array(4);
  new DataView(b.buffer).setUint32(0, n);
  return encode(Kind.ack, b);
};

let output: [string, boolean][];
let states: TerminalState[];
let explanation: ProblemBody | undefined;
let stream: TerminalStream;
const socket = () => FakeSocket.all.at(-1) as FakeSocket;

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.all = [];
  output = [];
  states = [];
  explanation = undefined;
  stream = new TerminalStream({
    dial: () => new FakeSocket() as unknown as WebSocket,
    session: "main",
    size: { cols: 80, rows: 24 },
    onOutput: (data, fresh) => output.push([new TextDecoder().decode(data), fresh]),
    onState: (s) => states.push(s),
    explain: () => Promise.resolve(explanation),
  });
});
afterEach(() => {
  stream.close();
  vi.useRealTimers();
});

describe("TerminalStream", () => {
  it("starts the session with its size", () => {
    socket().onopen?.();
    expect(socket().last()).toEqual([Kind.start, '{"session":"main","size":{"cols":80,"rows":24}}']);
    expect(stream.state.kind).toBe("attached");
  });

  it("passes output on and marks the first of each connection", async () => {
    socket().onopen?.();
    socket().say(encode(Kind.stdout, text("a")), encode(Kind.stdout, text("b")));
    socket().onclose?.();
    await vi.runOnlyPendingTimersAsync();
    socket().onopen?.();
    socket().say(encode(Kind.stdout, text("ab")));
    expect(output).toEqual([["a", true], ["b", false], ["ab", true]]);
  });

  it("comes back with growing delays, and starts over once it has heard something", async () => {
    const delays: number[] = [];
    for (let i = 0; i < 4; i++) {
      socket().onclose?.();
      await vi.advanceTimersByTimeAsync(0);
      if (stream.state.kind !== "waiting") throw new Error("not waiting");
      delays.push(stream.state.retryAt - Date.now());
      await vi.runOnlyPendingTimersAsync();
    }
    expect(FakeSocket.all).toHaveLength(5);
    for (const [i, d] of delays.entries()) if (i > 0) expect(d).toBeGreaterThan(delays[i - 1] as number);
    socket().onopen?.();
    socket().say(encode(Kind.stdout, text("x")));
    socket().onclose?.();
    expect(stream.state).toMatchObject({ kind: "waiting", attempt: 1 });
  });

  it("stops when trying again is of no use", async () => {
    explanation = { code: "gone", detail: "rig is closed" };
    socket().onclose?.();
    await vi.runAllTimersAsync();
    expect(stream.state).toEqual({ kind: "refused", problem: explanation });
    expect(FakeSocket.all).toHaveLength(1);
  });

  it("ends with the shell, and does not reconnect by itself", async () => {
    socket().onopen?.();
    socket().say(encodeJSON(Kind.exit, { code: 3, seconds: 1 }));
    socket().onclose?.();
    await vi.runAllTimersAsync();
    expect(stream.state).toEqual({ kind: "ended", status: { code: 3, seconds: 1 } });
    expect(FakeSocket.all).toHaveLength(1);
    stream.retryNow();
    expect(FakeSocket.all).toHaveLength(2);
  });

  it("shows an error frame, and treats a broken stream as one", () => {
    socket().onopen?.();
    socket().say(encodeJSON(Kind.error, { code: "backendFailure", detail: "the guest is gone" }));
    expect(stream.state).toMatchObject({ kind: "refused", problem: { detail: "the guest is gone" } });
    stream.retryNow();
    socket().onopen?.();
    socket().say(Uint8Array.of(99, 0, 0, 0, 0));
    expect(stream.state).toMatchObject({ kind: "refused", problem: { code: "backendFailure" } });
    expect(socket().closed).toBe(true);
  });

  it("sends a new size only when it is new", () => {
    socket().onopen?.();
    stream.resize({ cols: 80, rows: 24 });
    expect(socket().frames).toHaveLength(1);
    stream.resize({ cols: 100, rows: 30 });
    expect(socket().last()).toEqual([Kind.resize, '{"cols":100,"rows":30}']);
  });

  it("keeps input within the window, and sends the rest as it is acknowledged", () => {
    socket().onopen?.();
    stream.send(new Uint8Array(WINDOW + 100_000));
    expect(socket().stdin()).toBe(WINDOW);
    expect(stream.queued).toBe(100_000);
    stream.resize({ cols: 10, rows: 10 });
    expect(socket().last()?.[0]).toBe(Kind.resize);
    socket().say(ack(65_536));
    expect(socket().stdin()).toBe(WINDOW + 65_536);
    socket().say(ack(WINDOW));
    expect(socket().stdin()).toBe(WINDOW + 100_000);
    expect(stream.queued).toBe(0);
  });

  it("drops what is typed without a connection", async () => {
    socket().onopen?.();
    socket().onclose?.();
    stream.send(text("rm -rf\r"));
    await vi.runOnlyPendingTimersAsync();
    socket().onopen?.();
    expect(socket().stdin()).toBe(0);
  });

  it("is silent after it was closed", async () => {
    socket().onopen?.();
    const before = states.length;
    stream.close();
    expect(socket().closed).toBe(true);
    socket().onclose?.();
    await vi.runAllTimersAsync();
    expect(states).toHaveLength(before);
    expect(FakeSocket.all).toHaveLength(1);
  });
});

describe("isReport", () => {
  it.each(["\x1b[?1;2c", "\x1b[24;80R", "\x1b[0n", "\x1b[>0;276;0c", "\x1b]11;rgb:0000/0000/0000\x1b\\", "\x1b[?2026;2$y", "\x1b[I", "\x1b[0n\x1b[1;1R"])("knows %j", (s) => expect(isReport(s)).toBe(true));
  it.each(["a", "\r", "\x1b[A", "\x1bOP", "\x1b", "\x1b[200~pasted\x1b[201~", "\x1b[1;5C", "\x1b[0nls\r"])("takes %j for typed", (s) => expect(isReport(s)).toBe(false));
});
