import type { QueryClient } from "@tanstack/react-query";
import { backoff } from "./backoff";
import { emptyLog, MAX_LOG, mergeLog, type Log } from "./merge";
import { keys, putApproval, putRig, putRules } from "./queries";
import { MAX_ROWS, mergeRows, noRows, type Rows } from "../audit";
import type { AuditRow, EgressEvent, ServerEvent } from "./types";
import { viewer } from "./viewer";

export type FeedState = { kind: "connecting" } | { kind: "live" } | { kind: "lost"; attempt: number; retryAt: number };

/** How often lines of egress and audit logs are shown, in milliseconds: a guest decides how many there are. */
const FLUSH = 150;

/**
 * Feed follows the server's event stream and writes what it says into the query cache. A lost connection is taken up again
 * with increasing delays; then everything is asked for once more, because events were missed.
 */
export class Feed {
  #client: QueryClient;
  #source: EventSource | undefined;
  #state: FeedState = { kind: "connecting" };
  #listeners = new Set<() => void>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #attempt = 0;
  #wasLive = false;
  #egress = new Map<string, EgressEvent[]>();
  #audit = new Map<string, AuditRow[]>();
  #flush: ReturnType<typeof setTimeout> | undefined;

  constructor(client: QueryClient) {
    this.#client = client;
  }

  readonly state = (): FeedState => this.#state;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** start connects; the function that it returns ends the connection. */
  start(): () => void {
    const now = () => this.retryNow();
    window.addEventListener("online", now);
    this.#connect();
    return () => {
      window.removeEventListener("online", now);
      clearTimeout(this.#timer);
      clearTimeout(this.#flush);
      this.#source?.close();
      this.#source = undefined;
      this.#attempt = 0;
      this.#set({ kind: "connecting" });
    };
  }

  readonly retryNow = (): void => {
    if (this.#state.kind !== "lost") return;
    clearTimeout(this.#timer);
    this.#connect();
  };

  #connect(): void {
    const source = new EventSource(`/v1/events?viewer=${viewer}`);
    this.#source = source;
    source.onopen = () => {
      this.#attempt = 0;
      this.#set({ kind: "live" });
      if (this.#wasLive) void this.#client.invalidateQueries();
      // The snapshot at the stream's start names live rigs only: what was closed meanwhile is found by asking.
      else for (const queryKey of [keys.rigs, keys.approvals]) void this.#client.invalidateQueries({ queryKey });
      this.#wasLive = true;
    };
    source.onerror = () => {
      // Own delays instead of EventSource's: it gives up for good on an error answer, such as a proxy's while the server restarts.
      source.close();
      if (this.#source !== source) return;
      this.#attempt++;
      const wait = backoff(this.#attempt);
      this.#set({ kind: "lost", attempt: this.#attempt, retryAt: Date.now() + wait });
      this.#timer = setTimeout(() => this.#connect(), wait);
      // Tells a server that is gone from a sign-in that has ended.
      void this.#client.invalidateQueries({ queryKey: keys.server });
    };
    for (const type of ["rig", "egress", "rules", "approval", "audit"] as const) {
      source.addEventListener(type, (e: MessageEvent<string>) => this.#handle(JSON.parse(e.data) as ServerEvent));
    }
  }

  #handle(event: ServerEvent): void {
    switch (event.type) {
      case "rig":
        if (event.rig) {
          putRig(this.#client, event.rig);
          this.#notice(event.rig.workspace, event.rig.space);
        }
        break;
      case "rules":
        if (event.rigId) putRules(this.#client, event.rigId, event.rules ?? []);
        break;
      case "egress":
        if (event.egress && event.rigId) this.#line(keys.egress(event.rigId), this.#egress, event.rigId, event.egress, MAX_LOG);
        break;
      case "approval":
        if (event.approval) putApproval(this.#client, event.approval);
        break;
      case "audit":
        if (event.audit && event.rigId) this.#line(keys.audit(event.rigId), this.#audit, event.rigId, event.audit, MAX_ROWS);
        break;
    }
  }

  /** A rig may be in a space that somebody else has just made. */
  #notice(workspace: string, space: string): void {
    const spaces = this.#client.getQueryData<{ name: string }[]>(keys.spaces(workspace));
    if (spaces && !spaces.some((s) => s.name === space)) void this.#client.invalidateQueries({ queryKey: keys.spaces(workspace) });
    const workspaces = this.#client.getQueryData<{ name: string }[]>(keys.workspaces);
    if (workspaces && !workspaces.some((w) => w.name === workspace)) void this.#client.invalidateQueries({ queryKey: keys.workspaces });
  }

  #line<T>(key: readonly string[], waiting: Map<string, T[]>, id: string, line: T, most: number): void {
    // A log that nobody has asked for is fetched whole when somebody does.
    if (!this.#client.getQueryState(key)) return;
    const lines = waiting.get(id) ?? [];
    lines.push(line);
    if (lines.length > most) lines.shift();
    waiting.set(id, lines);
    this.#flush ??= setTimeout(() => {
      this.#flush = undefined;
      for (const [rig, events] of this.#egress) this.#client.setQueryData<Log>(keys.egress(rig), (log) => mergeLog(log ?? emptyLog, events));
      for (const [rig, rows] of this.#audit) {
        // Rows that are known to be missing before these are asked for: the log has no holes.
        const log = this.#client.setQueryData<Rows>(keys.audit(rig), (known) => mergeRows(known ?? noRows, rows));
        if (log?.hole) void this.#client.invalidateQueries({ queryKey: keys.audit(rig) });
      }
      this.#egress.clear();
      this.#audit.clear();
    }, FLUSH);
  }

  #set(state: FeedState): void {
    this.#state = state;
    for (const listener of this.#listeners) listener();
  }
}
