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
export type Rig = Narrow<Schemas["Rig"], { phase: Phase; surface: SurfaceName; engine?: Engine; closeReason?: CloseReason }>;
export type Spec = Schemas["Spec"];
export type EgressEvent = Schemas["EgressEvent"];
export type EgressLog = Schemas["EgressLog"];
export type EgressEntry = Schemas["EgressEntry"];
export type EgressRules = Schemas["EgressRules"];
export type ServerEvent = Omit<Schemas["Event"], "rig"> & { rig?: Rig };
export type ServerInfo = Schemas["Server"];
export type Workspace = Schemas["Workspace"];
export type Space = Schemas["Space"];
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

export type Principal = Schemas["Principal"];
export type Role = Schemas["Membership"]["role"];
export type Class = Schemas["Rule"]["class"];
export type Effect = Schemas["Rule"]["effect"];
export type Mode = NonNullable<Space["mode"]>;
/** Exclusive: while somebody holds it, nobody else's actions change anything in the rig. */
export type Control = Schemas["Control"];
/** A question to a person. What `reason` and `summary` say comes from whoever asks. */
export type Approval = Schemas["Approval"];
export type ApprovalState = Approval["state"];
export type ApprovalAnswer = Schemas["ApprovalAnswer"];
/** A row of a rig's audit log. An action has one when it is decided, and another, with `ref`, when it ended. */
export type AuditRow = Schemas["AuditRow"];
export type AuditLog = Schemas["AuditLog"];
export type AuditVerified = Schemas["AuditVerified"];
export type Rule = Schemas["Rule"];
export type NewRule = Schemas["NewRule"];
export type Membership = Schemas["Membership"];
export type SurfaceEgress = Schemas["SurfaceEgress"];
