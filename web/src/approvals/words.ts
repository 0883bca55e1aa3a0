import type { Approval, ApprovalState, Class } from "../api/types";
import type { Tone } from "../ui/Notes";

/** What an action of a class is, after "asks to". */
export const classWords: Record<Class, string> = {
  enclosureControl: "drive a machine",
  networkEgress: "let a machine reach a host",
  processSpawn: "run a program",
  secretAccess: "read a secret",
};

export const asksTo = (a: Approval): string => (a.kind === "egress" ? "reach another host" : (classWords[a.class] ?? a.class));

/** The thing itself in a few words, for readers of screens and lists. */
export const what = (a: Approval): string => (a.pattern || a.summary || a.verb || "");

export const stateWords: Record<ApprovalState, string> = { pending: "waiting", approved: "approved", denied: "denied", expired: "nobody answered in time", canceled: "withdrawn" };
export const stateTones: Record<ApprovalState, Tone> = { pending: "info", approved: "good", denied: "bad", expired: "mute", canceled: "mute" };
