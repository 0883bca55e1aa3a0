// A rig's audit log as the page keeps and shows it, as pure functions.
import type { AuditRow } from "./api/types";
import { plural } from "./format";

/** The most rows of a rig's log that the page keeps. The export has all of them. */
export const MAX_ROWS = 4000;

export interface Rows {
  /** Without holes, in order of seq. */
  rows: AuditRow[];
  /** Rows are known that do not follow these: what is between has to be asked for. */
  hole: boolean;
  /** The first of these rows is the first that there is. */
  start?: boolean;
}

export const noRows: Rows = { rows: [], hole: false };

/** mergeRows adds rows at either end. Those that do not join are dropped, and that there are such is said. */
export function mergeRows(log: Rows, add: readonly AuditRow[], keep: "newest" | "oldest" = "newest"): Rows {
  const bySeq = new Map(log.rows.map((r) => [r.seq, r]));
  for (const r of add) bySeq.set(r.seq, r);
  const all = [...bySeq.values()].sort((a, b) => a.seq - b.seq);
  // The run that holds what was known: rows before it belong to a page that has not arrived.
  const from = all.findIndex((r) => r.seq === (log.rows[0]?.seq ?? all[0]?.seq));
  let first = from;
  while (first > 0 && all[first - 1]?.seq === (all[first] as AuditRow).seq - 1) first--;
  let last = from;
  while (last < all.length - 1 && all[last + 1]?.seq === (all[last] as AuditRow).seq + 1) last++;
  const run = from < 0 ? [] : all.slice(first, last + 1);
  const cut = keep === "newest" ? run.slice(-MAX_ROWS) : run.slice(0, MAX_ROWS);
  const start = cut[0]?.seq === 1 || (log.start === true && cut[0]?.seq === log.rows[0]?.seq);
  return { rows: cut, hole: last < all.length - 1, ...(start && { start }) };
}

/** One line of the timeline. */
export type Entry =
  | { kind: "action"; seq: number; row: AuditRow; end?: AuditRow }
  | { kind: "input"; seq: number; first: AuditRow; last: AuditRow; events: number; bytes: number; keys: boolean };

/** Input that is shown as one line is at most this far apart, in milliseconds. */
const APART = 120_000;

const keyVerbs = new Set(["terminal.input", "exec.input", "key", "type", "hold_key"]);
const pointerVerbs = new Set(["mouse_move", "left_mouse_down", "left_mouse_up", "scroll", "pointer", "tap", "swipe"]);
const isInput = (r: AuditRow): boolean => keyVerbs.has(r.action) || pointerVerbs.has(r.action) || r.action.endsWith(".input");

export const isRefused = (outcome: string): boolean => outcome !== "allowed" && outcome !== "done";

/** How many events a row stands for. */
const eventsOf = (r: AuditRow): number => {
  const n = Number(r.detail?.["events"]);
  return Number.isInteger(n) && n > 0 ? n : 1;
};

/** The most bytes that one key sends: an arrow or a function key with modifiers, a character in UTF-8. More was pasted, or sent by a program. */
const KEY_BYTES = 8;

/** How many bytes were typed, where a row says so. */
const bytesOf = (r: AuditRow): number => {
  const n = Number(r.detail?.["bytes"]);
  return Number.isInteger(n) && n > 0 ? n : 0;
};

/** fold joins an action with its end, and input of the same kind by the same hand into one entry. The newest are first. */
export function fold(rows: readonly AuditRow[]): Entry[] {
  const entries: Entry[] = [];
  const begun = new Map<number, Entry>();
  for (const row of rows) {
    const start = row.ref === undefined ? undefined : begun.get(row.ref);
    if (start) {
      if (start.kind === "action") start.end = row;
      else if (isRefused(row.outcome)) entries.push({ kind: "action", seq: row.seq, row });
      continue;
    }
    const top = entries.at(-1);
    if (row.ref === undefined && isInput(row)) {
      if (top?.kind === "input" && sameHand(top.last, row)) {
        top.last = row;
        top.events += eventsOf(row);
        top.bytes += bytesOf(row);
        top.keys &&= bytesOf(row) <= KEY_BYTES * eventsOf(row);
        begun.set(row.seq, top);
        continue;
      }
      const entry: Entry = { kind: "input", seq: row.seq, first: row, last: row, events: eventsOf(row), bytes: bytesOf(row), keys: bytesOf(row) <= KEY_BYTES * eventsOf(row) };
      entries.push(entry);
      begun.set(row.seq, entry);
      continue;
    }
    // An end whose beginning is not among these rows stands for itself.
    const entry: Entry = { kind: "action", seq: row.seq, row };
    entries.push(entry);
    begun.set(row.seq, entry);
  }
  return entries.reverse();
}

const sameHand = (a: AuditRow, b: AuditRow): boolean =>
  a.principal === b.principal &&
  a.kind === b.kind &&
  a.outcome === b.outcome &&
  keyVerbs.has(a.action) === keyVerbs.has(b.action) &&
  Date.parse(b.time) - Date.parse(a.time) < APART;

/** inputWords says what a line of input was: 42 key presses, or 47 bytes typed where something was pasted. */
export function inputWords(e: Entry & { kind: "input" }): string {
  if (!keyVerbs.has(e.first.action)) return plural(e.events, "pointer or touch event");
  return e.keys ? plural(e.events, "key press", "key presses") : `${plural(e.bytes, "byte")} typed`;
}

/** What an action was once done, and what it is to do it. */
const verbs: Record<string, readonly [done: string, todo: string]> = {
  open: ["opened the machine", "open the machine"],
  close: ["closed the machine", "close the machine"],
  park: ["parked the machine", "park the machine"],
  wake: ["woke the machine", "wake the machine"],
  take: ["took control", "take control"],
  give: ["handed control back", "hand control back"],
  exec: ["ran a program", "run a program"],
  terminal: ["attached to the terminal", "attach to the terminal"],
  "terminal.signal": ["sent a signal", "send a signal"],
  "exec.signal": ["sent a signal", "send a signal"],
  "approval.approve": ["approved a request", "approve a request"],
  "approval.deny": ["denied a request", "deny a request"],
  "audit.trim": ["dropped the oldest rows", "drop the oldest rows"],
  screen: ["read the screen", "read the screen"],
  "files.read": ["read files", "read files"],
  "files.write": ["wrote files", "write files"],
  "egress.allow": ["admitted a host", "admit a host"],
  "egress.deny": ["removed a host", "remove a host"],
  "egress.ask": ["asked for a host", "ask for a host"],
  read_file: ["read a file", "read a file"],
  write_file: ["wrote a file", "write a file"],
  list_dir: ["listed a directory", "list a directory"],
  screenshot: ["took a picture", "take a picture"],
  clipboard_read: ["read the clipboard", "read the clipboard"],
  clipboard_write: ["set the clipboard", "set the clipboard"],
};

/** actionWords says what was done, or what was to be; an action without words is shown by its name. */
export const actionWords = (action: string, done = true): string => (Object.hasOwn(verbs, action) ? (verbs[action] as readonly [string, string])[done ? 0 : 1] : action);

const outcomes: Record<string, string> = {
  controlHeld: "somebody else held control",
  forbidden: "not allowed to this principal",
  canceled: "canceled",
  notFound: "not there",
  backendFailure: "the machine failed",
  timeout: "took too long",
};

export const outcomeWords = (outcome: string): string => (Object.hasOwn(outcomes, outcome) ? `${outcomes[outcome]} (${outcome})` : outcome);

/** detailText writes what a row says beside its action in one line. Hashes say nothing to people. */
export function detailText(row: AuditRow): string {
  return Object.entries(row.detail ?? {})
    .filter(([k]) => !/hash|hmac/i.test(k))
    .map(([k, v]) => `${k}: ${v}`)
    .join(", ");
}
