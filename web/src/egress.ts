// What the egress panel says about an event, as pure functions.
import type { EgressEvent } from "./api/types";

const reasons: Record<string, string> = {
  notAdmitted: "not on the list",
  rawAddress: "an address instead of a name",
  forbiddenRange: "leads into a private network",
  portNotAdmitted: "port not admitted",
  protocol: "only TCP is carried",
  upstreamRefused: "the other side refused",
  admitted: "connected",
  closed: "connection ended",
};

/** reasonText puts a reason's code into words; one that is not known is shown as it is. */
export const reasonText = (reason: string): string => reasons[reason] ?? reason;

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

export type Show = "all" | "denied";

/** matches applies the log's filter. */
export function matches(e: EgressEvent, show: Show, text: string): boolean {
  if (show === "denied" && e.verdict !== "deny") return false;
  const words = text.trim().toLowerCase();
  if (words === "") return true;
  return `${target(e)} ${e.address ?? ""} ${e.protocol} ${e.reason} ${reasonText(e.reason)}`.toLowerCase().includes(words);
}
