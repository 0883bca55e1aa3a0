// Server-sent events read from a fetch body. EventSource cannot POST, and the long jobs of the API (building an image,
// making a template) are POSTs that answer with events.

export interface SSEMessage {
  event: string;
  data: string;
}

/** The most that one event may hold; more is an error, so a broken peer cannot fill the page's memory. */
export const MAX_EVENT = 1 << 20;

/** Decoder turns text, cut anywhere, into events as the HTML standard's event stream format says (id and retry are not used). */
export class Decoder {
  #rest = "";
  #event = "";
  #data: string[] = [];
  #size = 0;

  push(text: string): SSEMessage[] {
    const out: SSEMessage[] = [];
    this.#rest += text;
    if (this.#rest.length > MAX_EVENT) throw new Error(`an event is larger than ${MAX_EVENT} characters`);
    for (;;) {
      const end = this.#rest.search(/\r\n|\n|\r/);
      if (end < 0) return out;
      // A carriage return at the very end may be half of a CRLF: wait for what follows.
      if (this.#rest[end] === "\r" && end === this.#rest.length - 1) return out;
      const line = this.#rest.slice(0, end);
      this.#rest = this.#rest.slice(end + (this.#rest.startsWith("\r\n", end) ? 2 : 1));
      const message = this.#line(line);
      if (message) out.push(message);
    }
  }

  #line(line: string): SSEMessage | undefined {
    if (line === "") {
      const message = this.#data.length > 0 ? { event: this.#event || "message", data: this.#data.join("\n") } : undefined;
      this.#event = "";
      this.#data = [];
      this.#size = 0;
      return message;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return undefined;
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (field === "event") this.#event = value;
    if (field === "data") {
      this.#size += value.length;
      if (this.#size > MAX_EVENT) throw new Error(`an event is larger than ${MAX_EVENT} characters`);
      this.#data.push(value);
    }
    return undefined;
  }
}

/** messages yields the events of a response's body until it ends. */
export async function* messages(res: Response): AsyncGenerator<SSEMessage> {
  if (!res.body) return;
  const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
  const decoder = new Decoder();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* decoder.push(value);
    }
  } finally {
    reader.cancel().catch(() => undefined); // the stream may have failed already
  }
}
