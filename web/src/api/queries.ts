import { queryOptions, type QueryClient } from "@tanstack/react-query";
import { json, request, segment } from "./http";
import { emptyLog, mergeLog, mergeRig, occupies, type Log } from "./merge";
import { byAge, MAX_PENDING, mergeApproval } from "./approvals";
import type {
  Approval,
  ApprovalAnswer,
  AuditVerified,
  Doctor,
  EgressEntry,
  EgressLog,
  EgressRules,
  Image,
  Membership,
  Mode,
  NewRule,
  Rig,
  Role,
  Rule,
  ServerInfo,
  Space,
  Spec,
  SurfaceEgress,
  Template,
  Workspace,
} from "./types";
import { settle } from "../approvals/settled";
import { viewer } from "./viewer";

export const keys = {
  server: ["server"] as const,
  doctor: ["doctor"] as const,
  workspaces: ["workspaces"] as const,
  spaces: (workspace: string) => ["spaces", workspace] as const,
  rigs: ["rigs"] as const,
  closed: (workspace: string, space: string) => ["closed", workspace, space] as const,
  egress: (id: string) => ["egress", id] as const,
  entries: (id: string) => ["entries", id] as const,
  audit: (id: string) => ["audit", id] as const,
  approvals: ["approvals"] as const,
  answered: ["answered"] as const,
  rules: (workspace: string) => ["rules", workspace] as const,
  members: (workspace: string) => ["members", workspace] as const,
  defaults: (workspace: string) => ["defaults", workspace] as const,
  images: ["images"] as const,
  templates: ["templates"] as const,
};

export const serverQuery = queryOptions({
  queryKey: keys.server,
  queryFn: ({ signal }) => json<ServerInfo>("/v1/server", { signal }),
});

export const doctorQuery = queryOptions({
  queryKey: keys.doctor,
  queryFn: ({ signal }) => json<Doctor>("/v1/doctor", { signal }),
  staleTime: 60_000,
});

export const workspacesQuery = queryOptions({
  queryKey: keys.workspaces,
  queryFn: async ({ signal }) => (await json<{ workspaces: Workspace[] | null }>("/v1/workspaces", { signal })).workspaces ?? [],
  refetchInterval: 30_000,
});

export const spacesQuery = (workspace: string) =>
  queryOptions({
    queryKey: keys.spaces(workspace),
    queryFn: async ({ signal }) =>
      (await json<{ spaces: Space[] | null }>(`/v1/workspaces/${segment(workspace)}/spaces`, { signal })).spaces ?? [],
    refetchInterval: 30_000,
  });

/**
 * Events that arrived lately. The answer to a request may be older than an event that overtook it; the events that came
 * after the request was sent are laid over the answer.
 */
class Recent<T extends { id: string }> {
  #seq = 0;
  #events = new Map<string, { seq: number; value: T }>();

  add(value: T): void {
    this.#events.set(value.id, { seq: ++this.#seq, value });
    if (this.#events.size > 500) {
      const oldest = [...this.#events].sort(([, a], [, b]) => a.seq - b.seq).slice(0, 250);
      for (const [id] of oldest) this.#events.delete(id);
    }
  }
  mark(): number {
    return this.#seq;
  }
  since(mark: number): T[] {
    return [...this.#events.values()].filter((e) => e.seq > mark).map((e) => e.value);
  }
}

const recentApprovals = new Recent<Approval>();
export const recent = new Recent<Rig>();

/** Every rig that is not closed, of all workspaces. */
export const rigsQuery = queryOptions({
  queryKey: keys.rigs,
  queryFn: async ({ signal }) => {
    const mark = recent.mark();
    const { rigs } = await json<{ rigs: Rig[] | null }>("/v1/rigs", { signal });
    return recent.since(mark).reduce(mergeRig, (rigs ?? []).filter(occupies));
  },
});

/** The rigs that a space had, newest first: for saying what became of the last one. */
export const closedQuery = (workspace: string, space: string) =>
  queryOptions({
    queryKey: keys.closed(workspace, space),
    queryFn: async ({ signal }) => {
      const { rigs } = await json<{ rigs: Rig[] | null }>(`/v1/rigs?all=true&workspace=${segment(workspace)}&space=${segment(space)}`, { signal });
      return (rigs ?? []).filter((r) => r.phase === "closed");
    },
  });

/** The egress log of a rig. Asking again fetches only what is newer than what is known. */
export const egressQuery = (client: QueryClient, id: string) =>
  queryOptions({
    queryKey: keys.egress(id),
    queryFn: async ({ signal }): Promise<Log> => {
      const known = client.getQueryData<Log>(keys.egress(id)) ?? emptyLog;
      const after = known.events.at(-1)?.seq ?? 0;
      const answer = await json<EgressLog>(`/v1/rigs/${segment(id)}/egress/log?after=${after}`, { signal });
      return mergeLog(client.getQueryData<Log>(keys.egress(id)) ?? emptyLog, answer.events ?? [], answer.lost ?? 0);
    },
    staleTime: Infinity,
  });

/** The patterns that a rig admits, with their ends. */
export const entriesQuery = (id: string) =>
  queryOptions({
    queryKey: keys.entries(id),
    queryFn: async ({ signal }): Promise<EgressEntry[]> => {
      const rules = await json<EgressRules>(rigPath(id, "/egress"), { signal });
      return rules.entries ?? (rules.patterns ?? []).map((pattern) => ({ pattern }));
    },
  });

/** Every question of this server that waits for an answer. Events keep it up to date. */
export const approvalsQuery = queryOptions({
  queryKey: keys.approvals,
  queryFn: async ({ signal }) => {
    const mark = recentApprovals.mark();
    const { approvals } = await json<{ approvals: Approval[] | null }>("/v1/approvals?state=pending", { signal });
    return recentApprovals.since(mark).reduce(mergeApproval, (approvals ?? []).toSorted(byAge).slice(0, MAX_PENDING));
  },
  // Answers may be missed where the connection was lost unnoticed; the list is short.
  refetchInterval: 60_000,
});

/** The last questions and what was answered, newest first. */
export const answeredQuery = queryOptions({
  queryKey: keys.answered,
  queryFn: async ({ signal }) => {
    const all = (await json<{ approvals: Approval[] | null }>("/v1/approvals", { signal })).approvals ?? [];
    return all.filter((a) => a.state !== "pending");
  },
});

export const rulesQuery = (workspace: string) =>
  queryOptions({
    queryKey: keys.rules(workspace),
    queryFn: async ({ signal }) => (await json<{ rules: Rule[] | null }>(workspacePath(workspace, "/rules"), { signal })).rules ?? [],
  });

export const membersQuery = (workspace: string) =>
  queryOptions({
    queryKey: keys.members(workspace),
    queryFn: async ({ signal }) => (await json<{ members: Membership[] | null }>(workspacePath(workspace, "/members"), { signal })).members ?? [],
  });

/** What a workspace changes in the default egress lists, and the lists that result. */
export const defaultsQuery = (workspace: string) =>
  queryOptions({
    queryKey: keys.defaults(workspace),
    queryFn: async ({ signal }) => (await json<{ surfaces: SurfaceEgress[] | null }>(workspacePath(workspace, "/egress"), { signal })).surfaces ?? [],
  });

export const imagesQuery = queryOptions({
  queryKey: keys.images,
  queryFn: async ({ signal }) => (await json<{ images: Image[] | null }>("/v1/images", { signal })).images ?? [],
});

export const templatesQuery = queryOptions({
  queryKey: keys.templates,
  queryFn: async ({ signal }) => (await json<{ templates: Template[] | null }>("/v1/templates", { signal })).templates ?? [],
});

/** putRig makes a rig's new state known to everything that shows it. */
export function putRig(client: QueryClient, rig: Rig): void {
  recent.add(rig);
  client.setQueryData<Rig[]>(keys.rigs, (list) => (list ? mergeRig(list, rig) : list));
  if (rig.phase === "closed") void client.invalidateQueries({ queryKey: keys.closed(rig.workspace, rig.space) });
}

/** putApproval makes known what became of a question, or that there is a new one. */
export function putApproval(client: QueryClient, approval: Approval): void {
  recentApprovals.add(approval);
  const known = client.getQueryData<Approval[]>(keys.approvals)?.some((a) => a.id === approval.id);
  if (known && approval.state !== "pending") settle(approval);
  client.setQueryData<Approval[]>(keys.approvals, (list) => (list ? mergeApproval(list, approval) : list));
  if (approval.state !== "pending") {
    void client.invalidateQueries({ queryKey: keys.answered });
    void client.invalidateQueries({ queryKey: keys.rules(approval.workspace) }); // "remember this" writes one
  }
}

/** putRules makes a rig's admitted patterns known. Their ends are asked for where somebody looks at them. */
export function putRules(client: QueryClient, id: string, rules: string[]): void {
  void client.invalidateQueries({ queryKey: keys.entries(id) });
  const rig = client.getQueryData<Rig[]>(keys.rigs)?.find((r) => r.id === id);
  if (rig) putRig(client, { ...rig, egress: rules });
}

const rigPath = (id: string, verb = "") => `/v1/rigs/${segment(id)}${verb}`;
const workspacePath = (name: string, rest = "") => `/v1/workspaces/${segment(name)}${rest}`;

/** Where the whole audit log of a rig is downloaded from, as JSON Lines. */
export const exportPath = (id: string): string => rigPath(id, "/audit/export");

export const actions = {
  open: (spec: Spec) => json<Rig>("/v1/rigs", { method: "POST", body: spec }),
  rig: (id: string, signal?: AbortSignal) => json<Rig>(rigPath(id), signal ? { signal } : {}),
  close: (id: string) => json<Rig>(rigPath(id), { method: "DELETE" }),
  park: (id: string) => json<Rig>(rigPath(id, "/park"), { method: "POST" }),
  wake: (id: string) => json<Rig>(rigPath(id, "/wake"), { method: "POST" }),
  take: (id: string, force = false) => json<Rig>(rigPath(id, "/take"), { method: "POST", body: { viewer, ...(force && { force }) } }),
  give: (id: string) => json<Rig>(rigPath(id, "/give"), { method: "POST" }),
  answer: (id: string, answer: "approve" | "deny", body: ApprovalAnswer) => json<Approval>(`/v1/approvals/${segment(id)}/${answer}`, { method: "POST", body }),
  verifyAudit: (id: string) => json<AuditVerified>(rigPath(id, "/audit/verify")),
  allow: async (id: string, pattern: string, ttlSeconds = 0) =>
    (await json<EgressRules>(rigPath(id, "/egress/allow"), { method: "POST", body: { pattern, ...(ttlSeconds > 0 && { ttlSeconds }) } })).patterns ?? [],
  deny: async (id: string, pattern: string) =>
    (await json<EgressRules>(rigPath(id, "/egress/deny"), { method: "POST", body: { pattern } })).patterns ?? [],
  createWorkspace: (name: string) => request("/v1/workspaces", { method: "POST", body: { name } }),
  deleteWorkspace: (name: string) => request(`/v1/workspaces/${segment(name)}`, { method: "DELETE" }),
  createSpace: (workspace: string, name: string) => request(`/v1/workspaces/${segment(workspace)}/spaces`, { method: "POST", body: { name } }),
  deleteSpace: (workspace: string, name: string) =>
    request(`/v1/workspaces/${segment(workspace)}/spaces/${segment(name)}`, { method: "DELETE" }),
  setMode: (workspace: string, space: string, mode: Mode) =>
    json<Space>(workspacePath(workspace, `/spaces/${segment(space)}`), { method: "PATCH", body: { mode } }),
  addRule: (workspace: string, rule: NewRule) => json<Rule>(workspacePath(workspace, "/rules"), { method: "POST", body: rule }),
  removeRule: (workspace: string, id: string) => request(workspacePath(workspace, `/rules/${segment(id)}`), { method: "DELETE" }),
  setRole: (workspace: string, principal: string, role: Role) =>
    request(workspacePath(workspace, `/members/${segment(principal)}`), { method: "PUT", body: { role } }),
  removeMember: (workspace: string, principal: string) => request(workspacePath(workspace, `/members/${segment(principal)}`), { method: "DELETE" }),
  setDefaults: async (workspace: string, surfaces: SurfaceEgress[]) =>
    (await json<{ surfaces: SurfaceEgress[] | null }>(workspacePath(workspace, "/egress"), { method: "PUT", body: { surfaces } })).surfaces ?? [],
  freshDoctor: () => json<Doctor>("/v1/doctor?fresh=true"),
  removeImage: (name: string) => request(`/v1/images/${segment(name)}`, { method: "DELETE" }),
  removeTemplate: (key: string) => request(`/v1/templates/${segment(key)}`, { method: "DELETE" }),
  signOut: () => request("/v1/signout", { method: "POST" }),
};
