// The shapes of the server's HTTP API, as its OpenAPI description says (schema.ts is generated from it). Where the description
// has only a string, the values are those of internal/rig.
import type { components } from "./schema";

type Schemas = components["schemas"];

/** Narrow gives some fields of a shape a more exact type. It does not compile if the shape has no such field, or another type there. */
type Narrow<T, N extends { [K in keyof N]: K extends keyof T ? T[K] : never }> = Omit<T, keyof N> & N;

export type SurfaceName = Schemas["Spec"]["surface"];
export type Engine = NonNullable<Schemas["Spec"]["engine"]>;
export type Phase = "provisioning" | "ready" | "parked" | "closing" | "closed" | "failed";
export type CloseReason =
  | "requested"
  | "idleTimeout"
  | "ttlExpired"
  | "memoryEvicted"
  | "conversationEnded"
  | "workspaceGone"
  | "serverShutdown"
  | "backendFailure";

/** An RFC 9457 problem. `code` is stable, `detail` reads "what failed: why: what helps". */
export type ProblemBody = Schemas["Problem"];
export type Step = Schemas["Step"];
export type Rig = Narrow<Schemas["Rig"], { phase: Phase; surface: SurfaceName; engine?: Engine; closeReason?: CloseReason }> & { control?: Control; residentMB?: number };
export type Spec = Schemas["Spec"];
export type EgressEvent = Schemas["EgressEvent"];
export type EgressLog = Schemas["EgressLog"];
export interface EgressEntry {
  pattern: string;
  /** When it ends and its connections are closed; absent: with the rig. */
  expiresAt?: string;
}
export type EgressRules = Omit<Schemas["EgressRules"], "entries"> & { entries?: EgressEntry[] | null };
export type ServerEvent = Omit<Schemas["Event"], "rig" | "type"> & {
  type: Schemas["Event"]["type"] | "approval" | "audit";
  rig?: Rig;
  approval?: Approval;
  audit?: AuditRow;
};
export type ServerInfo = Schemas["Server"];
export type Workspace = Schemas["Workspace"];
export type Space = Schemas["Space"] & { mode?: Mode };
export type Check = Schemas["Check"];
export type SurfaceReport = Narrow<Schemas["Surface"], { surface: SurfaceName }>;
export type Doctor = Omit<Schemas["Doctor"], "surfaces"> & { surfaces: SurfaceReport[] | null };
export type Image = Narrow<Schemas["Image"], { surfaces: SurfaceName[] | null }>;
export type Template = Narrow<Schemas["Template"], { surface: SurfaceName; engine?: Engine }>;
export type Token = Schemas["Token"];
export type CreatedToken = Schemas["CreatedToken"];
export type SigninLink = Schemas["SigninLink"];

/** How a command ended: the payload of an exit frame. */
export type ExitStatus = Pick<Schemas["ExecResult"], "code" | "signal" | "timedOut" | "seconds">;

export type Principal = Schemas["Server"]["principal"];
export type Role = "viewer" | "member" | "admin" | "owner";
export type Class = "enclosureControl" | "networkEgress" | "processSpawn" | "secretAccess";
export type Effect = "allow" | "ask" | "deny";
export type Mode = "normal" | "readOnly";

/** Exclusive: while somebody holds it, nobody else's actions change anything in the rig. */
export interface Control {
  holder: Principal;
  since: string;
}

export type ApprovalState = "pending" | "approved" | "denied" | "expired" | "canceled";

/** A question to a person. What `reason` and `summary` say comes from whoever asks. */
export interface Approval {
  id: string;
  kind: "egress" | "action";
  workspace: string;
  space: string;
  rigId?: string;
  by: Principal;
  reason?: string;
  pattern?: string;
  /** How long the pattern is asked to be admitted; 0 or absent: as long as the rig lives. */
  ttlSeconds?: number;
  class: Class;
  verb?: string;
  summary?: string;
  state: ApprovalState;
  createdAt: string;
  expiresAt: string;
  answeredAt?: string;
  answeredBy?: string;
  note?: string;
}

export interface ApprovalAnswer {
  ttlSeconds?: number;
  pattern?: string;
  remember?: "space" | "agent" | "workspace";
  note?: string;
}

/** A row of a rig's audit log. An action has one when it is decided, and another, with `ref`, when it ended. */
export interface AuditRow {
  rigId?: string;
  seq: number;
  time: string;
  principal: string;
  /** The server itself is of kind system. */
  kind: Principal["kind"] | "system";
  action: string;
  class?: Class;
  outcome: string;
  ref?: number;
  detail?: Record<string, string>;
  hash: string;
}

export interface AuditLog {
  rows: AuditRow[] | null;
  more?: boolean;
}

export interface AuditVerified {
  ok: boolean;
  rows: number;
  badSeq?: number;
  detail?: string;
  /** Kept elsewhere, these tell later that the log was not put back to an older state. */
  lastSeq?: number;
  lastHash?: string;
}

export interface Rule {
  id: string;
  class: Class;
  effect: Effect;
  space?: string;
  agent?: string;
  mode?: Mode;
  createdAt: string;
  createdBy: string;
}

export type NewRule = Pick<Rule, "class" | "effect" | "space" | "agent" | "mode">;

export interface Membership {
  principal: string;
  role: Role;
}

export interface SurfaceEgress {
  surface: SurfaceName;
  add?: string[] | null;
  remove?: string[] | null;
  /** The list that results; not read in a request. */
  effective?: string[] | null;
}
