import { Problem, request, Unreachable } from "./http";
import { messages } from "./sse";
import type { ProblemBody, Step } from "./types";

/** runJob starts a long job, reports its steps and returns what its `done` event carries. A job that ends without one has failed. */
export async function runJob<T>(path: string, body: unknown, onStep: (step: Step) => void): Promise<T> {
  const res = await request(path, { method: "POST", body, accept: "text/event-stream" });
  try {
    for await (const message of messages(res)) {
      switch (message.event) {
        case "step":
          onStep(JSON.parse(message.data) as Step);
          break;
        case "done":
          return JSON.parse(message.data) as T;
        case "error":
          throw new Problem(JSON.parse(message.data) as ProblemBody, 500);
      }
    }
  } catch (err) {
    if (err instanceof TypeError) throw new Unreachable("the connection was lost before the job ended: look at the list below for its outcome");
    throw err;
  }
  throw new Unreachable("the server ended the connection before the job ended: look at the list below for its outcome");
}
