import type { ProblemBody } from "./types";

/** The server refused or failed a request, and said why. */
export class Problem extends Error {
  readonly code: string;
  readonly status: number;
  readonly field: string | undefined;
  override name = "Problem";

  constructor(body: ProblemBody, status: number) {
    super(body.detail);
    this.code = body.code;
    this.status = body.status ?? status;
    this.field = body.field;
  }
}

/** The request did not reach the server, or no answer came back. */
export class Unreachable extends Error {
  override name = "Unreachable";
}

/** toProblem makes a Problem of an error answer, also of one that is not from our server (a proxy's page, say). */
export async function toProblem(res: Response): Promise<Problem> {
  const text = await res.text().catch(() => "");
  try {
    const body = JSON.parse(text) as Partial<ProblemBody>;
    if (typeof body.detail === "string" && typeof body.code === "string") {
      return new Problem(body as ProblemBody, res.status);
    }
  } catch {
    // Not JSON: described by its status below.
  }
  const code = res.status === 401 ? "unauthenticated" : "internal";
  return new Problem({ code, detail: `unexpected answer ${res.status} ${res.statusText}`.trim() }, res.status);
}

export interface RequestOptions {
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  body?: unknown;
  signal?: AbortSignal;
  accept?: string;
}

/** request sends one request with the page's cookie. Any answer that is not a success is thrown as a Problem. */
export async function request(path: string, opt: RequestOptions = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: opt.accept ?? "application/json" };
  const init: RequestInit = { method: opt.method ?? "GET", headers, credentials: "same-origin", cache: "no-store" };
  if (opt.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(opt.body);
  }
  if (opt.signal) init.signal = opt.signal;
  let res: Response;
  try {
    res = await fetch(path, init);
  } catch (err) {
    if (err instanceof DOMException && err.name === "AbortError") throw err;
    throw new Unreachable("the server does not answer: is it running? Start it with rigs up, then try again");
  }
  if (!res.ok) throw await toProblem(res);
  return res;
}

/** json is request for an answer with a body. */
export async function json<T>(path: string, opt: RequestOptions = {}): Promise<T> {
  const res = await request(path, opt);
  try {
    return (await res.json()) as T;
  } catch {
    throw new Problem({ code: "internal", detail: `the answer of ${path} is not JSON` }, res.status);
  }
}

/** segment escapes one part of a path. */
export const segment = encodeURIComponent;
