// Frames of the upgraded streams (docs/api.md): kind (1 byte), payload length (4 bytes, big-endian), payload. A WebSocket
// carries them as one byte stream: the boundaries of its messages mean nothing.

export const Kind = {
  start: 1,
  stdin: 2,
  eof: 3,
  stdout: 4,
  stderr: 5,
  ack: 6,
  resize: 7,
  signal: 8,
  exit: 9,
  error: 10,
} as const;
export type Kind = (typeof Kind)[keyof typeof Kind];

/** The largest payload, in bytes. */
export const MAX_FRAME = 64 << 10;

/** How many bytes of input may be under way before the other end has acknowledged them. */
export const WINDOW = 256 << 10;

const HEADER = 5;

export interface Frame {
  kind: Kind;
  payload: Uint8Array<ArrayBuffer>;
}

/** The other end broke the protocol; nothing after that can be understood. */
export class FrameError extends Error {
  override name = "FrameError";
}

export function encode(kind: Kind, payload: Uint8Array = new Uint8Array()): Uint8Array<ArrayBuffer> {
  if (payload.length > MAX_FRAME) throw new FrameError(`a frame of ${payload.length} bytes: the limit is ${MAX_FRAME}`);
  const out = new Uint8Array(HEADER + payload.length);
  out[0] = kind;
  new DataView(out.buffer).setUint32(1, payload.length);
  out.set(payload, HEADER);
  return out;
}

export const encodeJSON = (kind: Kind, value: unknown): Uint8Array<ArrayBuffer> => encode(kind, new TextEncoder().encode(JSON.stringify(value)));

export function decodeJSON<T>(frame: Frame): T {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(frame.payload)) as T;
  } catch {
    throw new FrameError(`a frame of kind ${frame.kind} does not hold JSON`);
  }
}

/** ackOf returns the number of bytes that an acknowledgement covers. */
export function ackOf(frame: Frame): number {
  if (frame.payload.length !== 4) throw new FrameError("an acknowledgement is not 4 bytes long");
  return new DataView(frame.payload.buffer, frame.payload.byteOffset).getUint32(0);
}

/** Decoder turns bytes, cut anywhere, into frames. It holds at most one frame that is not whole. */
export class Decoder {
  #header = new Uint8Array(HEADER);
  #got = 0; // of the header
  #payload: Uint8Array<ArrayBuffer> | undefined;
  #filled = 0; // of the payload

  push(chunk: Uint8Array): Frame[] {
    const out: Frame[] = [];
    let at = 0;
    for (;;) {
      if (!this.#payload) {
        const n = Math.min(HEADER - this.#got, chunk.length - at);
        this.#header.set(chunk.subarray(at, at + n), this.#got);
        this.#got += n;
        at += n;
        if (this.#got < HEADER) return out;
        this.#payload = new Uint8Array(this.#length());
        this.#filled = 0;
      }
      const n = Math.min(this.#payload.length - this.#filled, chunk.length - at);
      this.#payload.set(chunk.subarray(at, at + n), this.#filled);
      this.#filled += n;
      at += n;
      if (this.#filled < this.#payload.length) return out;
      out.push({ kind: this.#header[0] as Kind, payload: this.#payload });
      this.#payload = undefined;
      this.#got = 0;
    }
  }

  #length(): number {
    const kind = this.#header[0] as number;
    if (kind < Kind.start || kind > Kind.error) throw new FrameError(`a frame of the unknown kind ${kind}`);
    const length = new DataView(this.#header.buffer).getUint32(1);
    if (length > MAX_FRAME) throw new FrameError(`a frame of ${length} bytes: the limit is ${MAX_FRAME}`);
    return length;
  }
}
