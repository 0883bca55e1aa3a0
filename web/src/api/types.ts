// The shapes of the server's HTTP API that the page uses: docs/api.md, internal/rig and internal/serverapi are their source.

export type SurfaceName = "terminal" | "browser" | "desktop" | "phone" | "mac";
export type Engine = "chromium" | "firefox" | "webkit";
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
export interface ProblemBody {
  detail: string;
  code: string;
  field?: string;
  title?: string;
  status?: number;
}

export interface Step {
  text: string;
  done?: number;
  total?: number;
  unit?: "bytes" | "files" | "packages" | "steps";
}

export interface Resources {
  memoryMB: number;
  vcpus: number;
  ttlSeconds: number;
  idleSeconds: number;
  diskMB: number;
}

export interface Rig {
  id: string;
  workspace: string;
  space: string;
  surface: SurfaceName;
  engine?: Engine;
  image: string;
  resources: Resources;
  openedBy: string;
  phase: Phase;
  step?: Step;
  boot?: "clone" | "cold";
  accel?: string;
  openedAt: string;
  readyAt?: string;
  closedAt?: string;
  expiresAt: string;
  closeReason?: CloseReason;
  error?: ProblemBody;
  /** The server leaves it null rather than empty when a rig has no rules. */
  egress: string[] | null;
  inUse?: string[];
}

export interface Spec {
  workspace: string;
  space: string;
  surface: SurfaceName;
  engine?: Engine;
}

export interface EgressEvent {
  seq: number;
  time: string;
  verdict: "allow" | "deny";
  reason: string;
  protocol: string;
  host?: string;
  address?: string;
  port?: number;
  bytesOut?: number;
  bytesIn?: number;
  seconds?: number;
  count?: number;
}

export interface EgressLog {
  events: EgressEvent[] | null;
  lost?: number;
}

export interface ServerEvent {
  type: "rig" | "egress" | "rules";
  rigId: string;
  rig?: Rig;
  egress?: EgressEvent;
  rules?: string[];
}

export interface ServerInfo {
  version: string;
  dataDir: string;
  startedAt: string;
  principal: { name: string; kind: "person" | "agent" };
}

export interface Workspace {
  name: string;
  createdAt: string;
  spaces: number;
  rigs: number;
}

export interface Space {
  name: string;
  workspace: string;
  createdAt: string;
  rigs: number;
}

export interface Doctor {
  host: { os: string; arch: string; cpus: number; memoryMB: number; diskFreeMB: number };
  checks: Check[] | null;
  surfaces: SurfaceReport[] | null;
}

export interface Check {
  name: string;
  ok: boolean;
  detail?: string;
  fix?: string;
}

export interface SurfaceReport {
  surface: SurfaceName;
  state: "ready" | "missing" | "unsupported";
  accel?: string;
  detail?: string;
  fix?: string;
  checks?: string[] | null;
}

export interface Image {
  name: string;
  digest?: string;
  createdAt?: string;
  sizeBytes: number;
  surfaces: SurfaceName[] | null;
  default: boolean;
  state: "ready" | "missing" | "corrupt";
  detail?: string;
}

export interface Template {
  key: string;
  surface: SurfaceName;
  engine?: Engine;
  image: string;
  memoryMB: number;
  vcpus: number;
  accel: string;
  createdAt: string;
  sizeBytes: number;
  state: "ready" | "stale" | "corrupt";
  detail?: string;
}

export interface ExitStatus {
  code: number;
  signal?: string;
  timedOut?: boolean;
  seconds: number;
}
