import { queryOptions, type QueryClient } from "@tanstack/react-query";
import { MAX_ROWS, mergeRows, noRows, type Rows } from "../audit";
import { json, segment } from "./http";
import { keys } from "./queries";
import type { AuditLog } from "./types";

/** How many rows are asked for at once. */
export const PAGE = 200;

const page = (id: string, query: string, signal?: AbortSignal) => json<AuditLog>(`/v1/rigs/${segment(id)}/audit?${query}`, signal ? { signal } : {});

/** tail is the last page of a log. */
async function tail(id: string, signal: AbortSignal): Promise<Rows> {
  const rows = (await page(id, `tail=true&limit=${PAGE}`, signal)).rows ?? [];
  return { rows, hole: false, ...(rows.length < PAGE && { start: true }) };
}

/** The audit log of a rig: its last rows, then what events add. Asking again fetches what is newer than what is known. */
export const auditQuery = (client: QueryClient, id: string) =>
  queryOptions({
    queryKey: keys.audit(id),
    queryFn: async ({ signal }): Promise<Rows> => {
      const known = () => client.getQueryData<Rows>(keys.audit(id)) ?? noRows;
      const last = known().rows.at(-1)?.seq;
      if (last === undefined) return mergeRows(await tail(id, signal), known().rows);
      let log = known();
      let more = true;
      for (let pages = 0; more; pages++) {
        // So many came meanwhile that what was known is not worth joining.
        if (pages === MAX_ROWS / PAGE) return tail(id, signal);
        const answer = await page(id, `after=${log.rows.at(-1)?.seq ?? last}&limit=${PAGE}`, signal);
        log = mergeRows(log, answer.rows ?? []);
        more = answer.more === true && (answer.rows ?? []).length > 0;
      }
      return mergeRows(log, known().rows);
    },
    staleTime: Infinity,
  });

/** loadOlder adds the page before what is known. */
export async function loadOlder(client: QueryClient, id: string): Promise<void> {
  const first = client.getQueryData<Rows>(keys.audit(id))?.rows[0]?.seq ?? 1;
  if (first <= 1) return;
  const after = Math.max(0, first - 1 - PAGE);
  const { rows } = await page(id, `after=${after}&limit=${first - 1 - after}`);
  client.setQueryData<Rows>(keys.audit(id), (log) => {
    const next = mergeRows(log ?? noRows, rows ?? [], "oldest");
    // The oldest rows of a long log are not kept for ever: it then begins later than with 1.
    return next.rows[0]?.seq === first ? { ...next, start: true } : next;
  });
}
