// What the egress panel says about an event, as pure functions.
import type { EgressEvent } from "./api/types";

const reasons: Record<string, string> = {
  notAdmitted: "not on the list",
  rawAddress: "an address instead of a name",
  forbiddenRange: "leads into a private network",
  portNotAdmitted: "port not admitted",
  protocol: "only TCP is carried",
  serverName: "TLS names another host, or none",
  httpHost: "HTTP names another host, or none",
  removed: "closed: its pattern was removed",
  expired: "closed: its admission has ended",
  badName: "not a host name",
  tooManyConnections: "too many connections at once",
  rateLimit: "too many in a short time",
  upstreamRefused: "the other side refused",
  upstreamUnreachable: "the other side did not answer",
  lookupFailed: "the name has no address",
  proxyUnreachable: "the server's proxy did not answer as one",
  proxyAuthentication: "the server's proxy wants another name or password",
  proxyRefused: "the server's proxy does not connect to it",
  proxyFailed: "the server's proxy could not connect to it",
  abandoned: "the machine gave up before it was connected",
  idle: "closed: nothing moved for long",
  admitted: "connected",
  closed: "connection ended",
};

/** reasonText puts a reason's code into words; one that is not known is shown as it is. */
export const reasonText = (reason: string): string => (Object.hasOwn(reasons, reason) ? (reasons[reason] as string) : reason);

const failures = new Set(["lookupFailed", "upstreamRefused", "upstreamUnreachable", "proxyUnreachable", "proxyAuthentication", "proxyRefused", "proxyFailed"]);

/** How an event is marked: what was let through and came to nothing is no success. */
export const mark = (e: EgressEvent): "denied" | "failed" | "allowed" => (e.verdict === "deny" ? "denied" : failures.has(e.reason) ? "failed" : "allowed");

/** target is what the guest wanted to reach. Ports that every pattern includes are left out. */
export function target(e: EgressEvent): string {
  const name = e.host || e.address || "unknown";
  return e.port && e.port !== 443 && e.port !== 80 ? `${name.includes(":") ? `[${name}]` : name}:${e.port}` : name;
}

/**
 * admitPattern is the pattern that would let this event pass, or undefined where none can: an address has no name to admit,
 * and a protocol that is not carried stays so.
 */
export function admitPattern(e: EgressEvent): string | undefined {
  if (e.verdict !== "deny" || !e.host || (e.reason !== "notAdmitted" && e.reason !== "portNotAdmitted")) return undefined;
  return e.port && e.port !== 443 && e.port !== 80 ? `${e.host}:${e.port}` : e.host;
}

export type Show = "all" | "denied" | "allowed";

/** matches applies the log's filter. */
export function matches(e: EgressEvent, show: Show, text: string): boolean {
  if (show === "denied" && e.verdict !== "deny") return false;
  if (show === "allowed" && e.verdict !== "allow") return false;
  const words = text.trim().toLowerCase();
  if (words === "") return true;
  return `${target(e)} ${e.address ?? ""} ${e.protocol} ${e.reason} ${reasonText(e.reason)}`.toLowerCase().includes(words);
}

/** What a machine had to do with one host and port, over all lines that are known. */
export interface HostSum {
  target: string;
  /** How often it was refused, and how often connected. */
  refused: number;
  connected: number;
  bytesOut: number;
  bytesIn: number;
  last: EgressEvent;
  /** Admits it where the last refusal can be helped so. */
  pattern: string | undefined;
}

/** byHost sums up lines by what they were about, the last used first. */
export function byHost(events: readonly EgressEvent[]): HostSum[] {
  const sums = new Map<string, HostSum>();
  for (const e of events) {
    const name = target(e);
    const sum = sums.get(name) ?? { target: name, refused: 0, connected: 0, bytesOut: 0, bytesIn: 0, last: e, pattern: undefined };
    const n = e.count ?? 1;
    if (e.verdict === "deny") {
      sum.refused += n;
      sum.pattern = admitPattern(e) ?? sum.pattern;
    } else if (e.reason === "admitted") sum.connected += n;
    sum.bytesOut += e.bytesOut ?? 0;
    sum.bytesIn += e.bytesIn ?? 0;
    sum.last = e;
    // Put at the end: a map keeps the order of insertion.
    sums.delete(name);
    sums.set(name, sum);
  }
  return [...sums.values()].reverse();
}
