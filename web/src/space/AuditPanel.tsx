import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { auditQuery, loadOlder } from "../api/audit";
import { actions, exportPath } from "../api/queries";
import type { AuditRow, Rig } from "../api/types";
import { actionWords, detailText, fold, inputWords, isRefused, MAX_ROWS, outcomeWords, type Entry } from "../audit";
import { clock, plural, took } from "../format";
import { Button } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { ErrorNote, Loading } from "../ui/Notes";

/** The most lines that are drawn at first, and at each wish for more. */
const DRAWN = 200;

/** Who did what in this machine, the last first. */
export function AuditPanel({ rig }: { rig: Rig }) {
  const client = useQueryClient();
  const log = useQuery(auditQuery(client, rig.id));
  const older = useMutation({ mutationFn: () => loadOlder(client, rig.id) });
  const verify = useMutation({ mutationFn: () => actions.verifyAudit(rig.id) });
  const [refused, setRefused] = useState(false);
  const [most, setMost] = useState(DRAWN);
  const rows = useMemo(() => log.data?.rows ?? [], [log.data]);
  const entries = useMemo(() => fold(rows), [rows]);
  const shown = refused ? entries.filter(wasRefused) : entries;
  const drawn = shown.slice(0, most);
  const missing = log.data?.start ? 0 : (rows[0]?.seq ?? 1) - 1;
  return (
    <div className="audit">
      <div className="audit-head">
        <div className="segmented words" role="group" aria-label="Which entries">
          <button type="button" aria-pressed={!refused} onClick={() => setRefused(false)}>
            All
          </button>
          <button type="button" aria-pressed={refused} onClick={() => setRefused(true)}>
            Refused
          </button>
        </div>
        <span className="audit-tools">
          <Button small busy={verify.isPending} onClick={() => verify.mutate()}>
            Verify
          </Button>
          <a className="btn btn-plain btn-small" href={exportPath(rig.id)} download={`audit-${rig.id}.jsonl`}>
            Export
          </a>
        </span>
      </div>
      {verify.error && <ErrorNote error={verify.error} />}
      {verify.data && (
        <div className={`note ${verify.data.ok ? "note-good" : "note-error"}`} role={verify.data.ok ? "status" : "alert"}>
          <Icon name={verify.data.ok ? "check" : "alert"} />
          <p className="note-text">
            {verify.data.ok
              ? `Intact: ${plural(verify.data.rows, "row")} checked, none was changed or removed.`
              : `Not intact${verify.data.badSeq ? ` from row ${verify.data.badSeq} on` : ""}: ${verify.data.detail ?? "the log is not as it was written"}.`}
          </p>
        </div>
      )}
      {log.error && <ErrorNote error={log.error} onRetry={() => void log.refetch()} />}
      {log.isPending ? (
        <Loading what="Loading the audit log" />
      ) : rows.length === 0 && !log.error ? (
        <p className="hint">Nothing was done in this machine yet. Every action and every input gets a row here, a person's and an agent's.</p>
      ) : shown.length === 0 && !log.error ? (
        <p className="hint">
          Nothing was refused{missing > 0 ? " in the rows that are loaded" : ""}.
        </p>
      ) : (
        <ol className="timeline" aria-label="Audit log, the last first">
          {drawn.map((e) => (
            <Line key={e.seq} entry={e} />
          ))}
        </ol>
      )}
      {shown.length > drawn.length ? (
        <Button small onClick={() => setMost(most + DRAWN)}>
          Show more
        </Button>
      ) : missing > 0 && rows.length > 0 ? (
        rows.length < MAX_ROWS ? (
          <Button small busy={older.isPending} onClick={() => older.mutate(undefined, { onSuccess: () => setMost(most + DRAWN) })}>
            Load older
          </Button>
        ) : (
          <p className="log-note">{plural(missing, "older row")}: the export has all of them.</p>
        )
      ) : null}
      {older.error && <ErrorNote error={older.error} />}
    </div>
  );
}

const wasRefused = (e: Entry): boolean => (e.kind === "input" ? isRefused(e.first.outcome) : isRefused(e.row.outcome) || (e.end !== undefined && isRefused(e.end.outcome)));

function Line({ entry: e }: { entry: Entry }) {
  const first = e.kind === "input" ? e.first : e.row;
  const bad = wasRefused(e);
  const denied = isRefused(first.outcome) && first.ref === undefined;
  // It was allowed, and did not come off.
  const failure = e.kind === "action" ? [e.end?.outcome, first.ref !== undefined ? first.outcome : undefined].find((o) => o !== undefined && isRefused(o)) : undefined;
  const details = e.kind === "input" ? "" : [detailText(first), e.end ? detailText(e.end) : ""].filter(Boolean).join(" · ");
  return (
    <li className={`audit-line ${bad ? "denied" : ""}`}>
      <time dateTime={first.time} title={new Date(first.time).toLocaleString()}>
        {clock(first.time)}
      </time>
      <div className="audit-what">
        <p>
          <Who row={first} />{" "}
          {e.kind === "input" ? (
            <span>{denied ? "tried " : ""}{inputWords(e)}</span>
          ) : (
            <span title={first.action}>
              {failure !== undefined ? `${actionWords(first.action, false)}: failed (${failure})` : denied ? `tried to ${actionWords(first.action, false)}` : first.ref !== undefined ? `end of ${first.action}` : actionWords(first.action)}
            </span>
          )}
          {e.kind === "action" && e.end && !isRefused(e.end.outcome) && <span className="muted"> {took(first.time, e.end.time)}</span>}
          {e.kind === "input" && e.last !== e.first && <span className="muted"> until {clock(e.last.time)}</span>}
        </p>
        {denied && <p className="audit-outcome">{first.outcome === "denied" ? "denied" : `refused: ${outcomeWords(first.outcome)}`}</p>}
        {details && (
          <p className="audit-detail" title={details}>
            {details}
          </p>
        )}
      </div>
    </li>
  );
}

const Who = ({ row }: { row: AuditRow }) => (
  <strong className={`who-${row.kind}`}>
    <bdi>{row.principal}</bdi>
    {row.kind === "agent" && <span className="agent-mark">agent</span>}
  </strong>
);
