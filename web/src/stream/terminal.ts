import { backoff } from "../api/backoff";
import type { ExitStatus, ProblemBody } from "../api/types";
import { ackOf, decodeJSON, Decoder, encode, encodeJSON, FrameError, Kind, MAX_FRAME, WINDOW, type Frame } from "./framing";

export interface Size {
  cols: number;
  rows: number;
}

export type TerminalState =
  | { kind: "connecting" }
  | { kind: "attached" }
  | { kind: "waiting"; attempt: number; retryAt: number }
  | { kind: "ended"; status: ExitStatus }
  | { kind: "refused"; problem: ProblemBody }
  | { kind: "detached" };

export interface TerminalOptions {
  /** Opens the WebSocket. */
  dial: () => WebSocket;
  /** The name of the session in the guest. */
  session: string;
  size: Size;
  /** Output of the guest. `fresh` marks the first of a connection: a replay of the session's last output begins there. */
  onOutput: (data: Uint8Array, fresh: boolean) => void;
  onState: (state: TerminalState) => void;
  /**
   * A WebSocket does not say why it could not be opened. Asked after a failure: a problem means that trying again is of no use.
   */
  explain: () => Promise<ProblemBody | undefined>;
}

/**
 * TerminalStream keeps one terminal session attached: it reconnects with increasing delays when the connection is lost, and
 * stops for good when the shell has ended or the server refuses. Input is sent within the protocol's window.
 */
export class TerminalStream {
  #opt: TerminalOptions;
  #socket: WebSocket | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #attempt = 0;
  #size: Size;
  #state: TerminalState = { kind: "connecting" };
  #queue: Uint8Array[] = [];
  #queued = 0;
  #inFlight = 0;
  #closed = false;

  constructor(opt: TerminalOptions) {
    this.#opt = opt;
    this.#size = opt.size;
    this.#connect();
  }

  get state(): TerminalState {
    return this.#state;
  }

  /** send passes input on. Without a connection it is dropped: nobody wants a line to run when the network comes back. */
  send(data: Uint8Array): void {
    if (this.#state.kind !== "attached") return;
    for (let at = 0; at < data.length; at += MAX_FRAME) {
      const part = data.slice(at, at + MAX_FRAME);
      this.#queue.push(part);
      this.#queued += part.length;
    }
    this.#drain();
  }

  /** Bytes of input that wait for the guest to take what was sent before them. */
  get queued(): number {
    return this.#queued;
  }

  resize(size: Size): void {
    if (size.cols === this.#size.cols && size.rows === this.#size.rows) return;
    this.#size = size;
    if (this.#state.kind === "attached") this.#socket?.send(encodeJSON(Kind.resize, size));
  }

  readonly retryNow = (): void => {
    if (this.#closed || this.#state.kind === "attached" || this.#state.kind === "connecting") return;
    clearTimeout(this.#timer);
    this.#connect();
  };

  /** renew drops the connection and attaches again: the session's last output is then replayed. */
  renew(): void {
    if (this.#closed || this.#state.kind !== "attached") return;
    this.#drop();
    this.#connect();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#drop();
  }

  #drop(): void {
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.close();
  }

  #set(state: TerminalState): void {
    this.#state = state;
    if (!this.#closed) this.#opt.onState(state);
  }

  #connect(): void {
    this.#set({ kind: "connecting" });
    this.#queue = [];
    this.#queued = 0;
    this.#inFlight = 0;
    const decoder = new Decoder();
    let fresh = true;
    const socket = this.#opt.dial();
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    socket.onopen = () => {
      if (this.#socket !== socket) return;
      socket.send(encodeJSON(Kind.start, { session: this.#opt.session, size: this.#size }));
      this.#set({ kind: "attached" });
    };
    socket.onmessage = (e: MessageEvent<unknown>) => {
      if (this.#socket !== socket) return;
      try {
        if (!(e.data instanceof ArrayBuffer)) throw new FrameError("a text message");
        for (const frame of decoder.push(new Uint8Array(e.data))) {
          if (this.#socket !== socket) return;
          this.#frame(frame, fresh);
          if (frame.kind === Kind.stdout) fresh = false;
        }
      } catch (err) {
        if (!(err instanceof FrameError)) throw err;
        this.#refuse({ code: "backendFailure", detail: `the terminal's stream is broken: ${err.message}: attach again` });
      }
    };
    socket.onclose = () => {
      if (this.#socket === socket) void this.#lost(socket);
    };
  }

  #frame(frame: Frame, fresh: boolean): void {
    this.#attempt = 0;
    switch (frame.kind) {
      case Kind.stdout:
      case Kind.stderr:
        this.#opt.onOutput(frame.payload, fresh);
        break;
      case Kind.ack:
        this.#inFlight = Math.max(0, this.#inFlight - ackOf(frame));
        this.#drain();
        break;
      case Kind.exit:
        this.#drop();
        this.#set({ kind: "ended", status: decodeJSON<ExitStatus>(frame) });
        break;
      case Kind.error: {
        const problem = decodeJSON<ProblemBody>(frame);
        // A keeper or guest that is going away takes the connection along; the rig's own state then says what became of it.
        this.#refuse(problem);
        break;
      }
      default:
        throw new FrameError(`a frame of kind ${frame.kind}, which only a client sends`);
    }
  }

  #refuse(problem: ProblemBody): void {
    this.#drop();
    this.#set({ kind: "refused", problem });
  }

  async #lost(socket: WebSocket): Promise<void> {
    this.#attempt++;
    const wait = backoff(this.#attempt);
    this.#set({ kind: "waiting", attempt: this.#attempt, retryAt: Date.now() + wait });
    this.#timer = setTimeout(() => this.#connect(), wait);
    const problem = await this.#opt.explain();
    if (problem && !this.#closed && this.#socket === socket && this.#state.kind === "waiting") {
      clearTimeout(this.#timer);
      this.#refuse(problem);
    }
  }

  #drain(): void {
    while (this.#socket && this.#queue.length > 0 && this.#inFlight < WINDOW) {
      const next = this.#queue[0] as Uint8Array;
      if (this.#inFlight + next.length > WINDOW) {
        const room = WINDOW - this.#inFlight;
        this.#write(next.subarray(0, room));
        this.#queue[0] = next.subarray(room);
        continue;
      }
      this.#queue.shift();
      this.#write(next);
    }
  }

  #write(data: Uint8Array): void {
    this.#socket?.send(encode(Kind.stdin, data));
    this.#inFlight += data.length;
    this.#queued -= data.length;
  }
}

/**
 * isReport recognises what a terminal says by itself in answer to an escape sequence (device attributes, cursor position,
 * status, colours). While old output is replayed such answers must not be sent: the program that asked is long gone, and
 * the shell would take them as typed.
 */
export function isReport(data: string): boolean {
  return /^(\x1b\[[?>=]?[\d;]*[cnRyt]|\x1b\[\?[\d;]+\$y|\x1b[P\]][^\x07\x1b]*(\x07|\x1b\\)|\x1b\[[IO])+$/.test(data);
}
