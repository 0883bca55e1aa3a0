// What the page knows is a snapshot from a request, brought up to date by events. These functions say how the two are
// joined; they are pure.
import type { EgressEvent, Rig } from "./types";

/** The most lines of a rig's egress log that the page keeps. */
export const MAX_LOG = 1000;

/** occupies reports whether a rig is to be shown: until it is closed. */
export const occupies = (rig: Rig): boolean => rig.phase !== "closed";

/** mergeRig puts rig in its place in the list, or takes it out once it is closed. The newest are first. */
export function mergeRig(list: readonly Rig[], rig: Rig): Rig[] {
  const rest = list.filter((r) => r.id !== rig.id);
  if (!occupies(rig)) return rest;
  // Only listings carry the memory that was measured: an event does not take it away from a machine that runs.
  const residentMB = rig.phase === "ready" ? (rig.residentMB ?? list.find((r) => r.id === rig.id)?.residentMB) : rig.residentMB;
  rest.push(residentMB === undefined ? rig : { ...rig, residentMB });
  return rest.sort((a, b) => b.openedAt.localeCompare(a.openedAt) || a.id.localeCompare(b.id));
}

export interface Log {
  events: EgressEvent[];
  /** How many events before these are no longer kept, here or by the server. */
  lost: number;
}

export const emptyLog: Log = { events: [], lost: 0 };

/** mergeLog adds events to a log: in order of seq, each once, the oldest dropped beyond MAX_LOG. */
export function mergeLog(log: Log, events: readonly EgressEvent[], lost = 0): Log {
  const bySeq = new Map(log.events.map((e) => [e.seq, e]));
  for (const e of events) bySeq.set(e.seq, e);
  const all = [...bySeq.values()].sort((a, b) => a.seq - b.seq);
  const over = Math.max(0, all.length - MAX_LOG);
  return { events: over > 0 ? all.slice(over) : all, lost: log.lost + lost + over };
}
