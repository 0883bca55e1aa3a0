import { queryOptions, type QueryClient } from "@tanstack/react-query";
import { MAX_ROWS, mergeRows, noRows, type Rows } from "../audit";
import { json, segment } from "./http";
import { keys } from "./queries";
import type { AuditLog } from "./types";

/** How many rows are asked for at once. */
export const PAGE = 200;

const page = (id: string, after: number, limit: number, signal?: AbortSignal) =>
  json<AuditLog>(`/v1/rigs/${segment(id)}/audit?after=${after}&limit=${limit}`, signal ? { signal } : {});

/** tail is the last page of a log. The API reads a log forwards, so its end is searched: by doubling, then by halving. */
async function tail(id: string, signal: AbortSignal): Promise<Rows> {
  const first = await page(id, 0, PAGE, signal);
  const rows = first.rows ?? [];
  if (!first.more) return { rows, hole: false, start: true };
  const beyond = async (n: number) => ((await page(id, n, 1, signal)).rows ?? []).length === 0;
  let low = rows.at(-1)?.seq ?? 0; // there are rows after this one
  let step = PAGE;
  for (; !(await beyond(low + step)); step *= 2) low += step;
  while (step > PAGE / 2) {
    step = Math.floor(step / 2);
    if (!(await beyond(low + step))) low += step;
  }
  return { rows: (await page(id, Math.max(0, low - PAGE / 2), PAGE, signal)).rows ?? [], hole: false };
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
        const answer = await page(id, log.rows.at(-1)?.seq ?? last, PAGE, signal);
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
  const { rows } = await page(id, after, first - 1 - after);
  client.setQueryData<Rows>(keys.audit(id), (log) => {
    const next = mergeRows(log ?? noRows, rows ?? [], "oldest");
    // The oldest rows of a long log are not kept for ever: it then begins later than with 1.
    return next.rows[0]?.seq === first ? { ...next, start: true } : next;
  });
}
