import type { Approval, ApprovalAnswer, ApprovalState, Class } from "../api/types";
import type { Tone } from "../ui/Notes";

/** What an action of a class is, after "asks to". */
export const classWords: Record<Class, string> = {
  enclosureControl: "drive a machine",
  networkEgress: "let a machine reach a host",
  processSpawn: "run a program",
  secretAccess: "read a secret",
};

/** What a guardrail about a class lets be done or forbids, after "may". */
export const mayWords: Record<Class, string> = {
  enclosureControl: "drive machines",
  networkEgress: "reach other hosts",
  processSpawn: "run programs",
  secretAccess: "use secrets",
};

export type Scope = NonNullable<ApprovalAnswer["remember"]>;

/** Whom a remembered answer is about. */
export const scopeWords = (a: Approval, scope: Scope): string =>
  ({
    space: `${a.by.name} in space ${a.space}`,
    agent: `${a.by.name} in the whole workspace ${a.workspace}`,
    workspace: `every agent in workspace ${a.workspace}`,
  })[scope];

/** The guardrail that a remembered answer writes, as a sentence. */
export const ruleWords = (a: Approval, scope: Scope, approved: boolean): string =>
  `${scopeWords(a, scope)} ${approved ? "may" : "may not"} ${mayWords[a.class] ?? a.class} from now on`;

export const asksTo = (a: Approval): string => (a.kind === "egress" ? "reach another host" : (classWords[a.class] ?? a.class));

/** The thing itself in a few words, for readers of screens and lists. */
export const what = (a: Approval): string => (a.pattern || a.summary || a.verb || "");

export const stateWords: Record<ApprovalState, string> = { pending: "waiting", approved: "approved", denied: "denied", expired: "nobody answered in time", canceled: "withdrawn" };
export const stateTones: Record<ApprovalState, Tone> = { pending: "info", approved: "good", denied: "bad", expired: "mute", canceled: "mute" };
