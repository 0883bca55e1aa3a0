import { queryOptions, type QueryClient } from "@tanstack/react-query";
import { json, request, segment } from "./http";
import { emptyLog, mergeLog, mergeRig, occupies, type Log } from "./merge";
import type { Doctor, EgressLog, EgressRules, Image, Rig, ServerInfo, Space, Spec, Template, Workspace } from "./types";

export const keys = {
  server: ["server"] as const,
  doctor: ["doctor"] as const,
  workspaces: ["workspaces"] as const,
  spaces: (workspace: string) => ["spaces", workspace] as const,
  rigs: ["rigs"] as const,
  closed: (workspace: string, space: string) => ["closed", workspace, space] as const,
  egress: (id: string) => ["egress", id] as const,
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
 * Rig events that arrived lately. An answer to GET /v1/rigs may be older than an event that overtook it; the events that
 * came after the request was sent are laid over the answer.
 */
class Recent {
  #seq = 0;
  #events = new Map<string, { seq: number; rig: Rig }>();

  add(rig: Rig): void {
    this.#events.set(rig.id, { seq: ++this.#seq, rig });
    if (this.#events.size > 500) {
      const oldest = [...this.#events].sort(([, a], [, b]) => a.seq - b.seq).slice(0, 250);
      for (const [id] of oldest) this.#events.delete(id);
    }
  }
  mark(): number {
    return this.#seq;
  }
  since(mark: number): Rig[] {
    return [...this.#events.values()].filter((e) => e.seq > mark).map((e) => e.rig);
  }
}

export const recent = new Recent();

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

/** putRules makes a rig's admitted patterns known. */
export function putRules(client: QueryClient, id: string, rules: string[]): void {
  const rig = client.getQueryData<Rig[]>(keys.rigs)?.find((r) => r.id === id);
  if (rig) putRig(client, { ...rig, egress: rules });
}

const rigPath = (id: string, verb = "") => `/v1/rigs/${segment(id)}${verb}`;

export const actions = {
  open: (spec: Spec) => json<Rig>("/v1/rigs", { method: "POST", body: spec }),
  rig: (id: string, signal?: AbortSignal) => json<Rig>(rigPath(id), signal ? { signal } : {}),
  close: (id: string) => json<Rig>(rigPath(id), { method: "DELETE" }),
  park: (id: string) => json<Rig>(rigPath(id, "/park"), { method: "POST" }),
  wake: (id: string) => json<Rig>(rigPath(id, "/wake"), { method: "POST" }),
  allow: async (id: string, pattern: string) =>
    (await json<EgressRules>(rigPath(id, "/egress/allow"), { method: "POST", body: { pattern } })).patterns ?? [],
  deny: async (id: string, pattern: string) =>
    (await json<EgressRules>(rigPath(id, "/egress/deny"), { method: "POST", body: { pattern } })).patterns ?? [],
  createWorkspace: (name: string) => request("/v1/workspaces", { method: "POST", body: { name } }),
  deleteWorkspace: (name: string) => request(`/v1/workspaces/${segment(name)}`, { method: "DELETE" }),
  createSpace: (workspace: string, name: string) => request(`/v1/workspaces/${segment(workspace)}/spaces`, { method: "POST", body: { name } }),
  deleteSpace: (workspace: string, name: string) =>
    request(`/v1/workspaces/${segment(workspace)}/spaces/${segment(name)}`, { method: "DELETE" }),
  freshDoctor: () => json<Doctor>("/v1/doctor?fresh=true"),
  removeImage: (name: string) => request(`/v1/images/${segment(name)}`, { method: "DELETE" }),
  removeTemplate: (key: string) => request(`/v1/templates/${segment(key)}`, { method: "DELETE" }),
  signOut: () => request("/v1/signout", { method: "POST" }),
};
