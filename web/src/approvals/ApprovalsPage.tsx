import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { byAge } from "../api/approvals";
import { answeredQuery, approvalsQuery } from "../api/queries";
import type { Approval } from "../api/types";
import { ago } from "../format";
import { ErrorNote, Loading, Pill } from "../ui/Notes";
import { useNow } from "../ui/useNow";
import { useTitle } from "../ui/useTitle";
import { ApprovalCard } from "./ApprovalCard";
import { useSettled } from "./settled";
import { asksTo, stateTones, stateWords } from "./words";

/** The most answered questions that are drawn. */
const DRAWN = 100;

/** Everything that was asked: what waits, and what became of the rest. */
export function ApprovalsPage() {
  useTitle("Approvals");
  const pending = useQuery(approvalsQuery);
  const answered = useQuery(answeredQuery);
  const settled = useSettled();
  const cards = [...settled, ...(pending.data ?? []).filter((a) => !settled.some((s) => s.id === a.id))].sort(byAge);
  const past = (answered.data ?? []).slice(0, DRAWN);
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>Approvals</h1>
          <p className="muted">Agents ask before they reach a new host, or where a guardrail says ask. No answer in time counts as denied.</p>
        </div>
      </header>
      <section className="block" aria-labelledby="waiting-title">
        <div className="block-head">
          <h2 id="waiting-title">Waiting</h2>
        </div>
        {pending.isPending && <Loading what="Loading requests" />}
        {pending.error && <ErrorNote error={pending.error} onRetry={() => void pending.refetch()} />}
        {pending.data && cards.length === 0 && <p className="hint">Nothing waits for an answer.</p>}
        <div className="approval-list">
          {cards.map((a) => (
            <ApprovalCard key={a.id} approval={a} />
          ))}
        </div>
      </section>
      <section className="block" aria-labelledby="past-title">
        <div className="block-head">
          <h2 id="past-title">Answered</h2>
        </div>
        {answered.isPending && <Loading what="Loading answers" />}
        {answered.error && <ErrorNote error={answered.error} onRetry={() => void answered.refetch()} />}
        {answered.data && past.length === 0 && <p className="hint">No answer was given yet.</p>}
        {past.length > 0 && (
          <ul className="rows">
            {past.map((a) => (
              <Answered key={a.id} approval={a} />
            ))}
          </ul>
        )}
      </section>
    </div>
  );
}

function Answered({ approval: a }: { approval: Approval }) {
  const now = useNow(30_000);
  return (
    <li className="row">
      <div className="row-main">
        <span className="row-name">
          <Pill tone={stateTones[a.state]}>{stateWords[a.state]}</Pill>
          <code className="clip">{a.pattern || a.verb}</code>
          {a.summary && <span className="muted clip">{a.summary}</span>}
        </span>
        <span className="row-facts">
          <span>
            {a.by.name} asked to {asksTo(a)}
          </span>
          <Link to="/w/$workspace/$space" params={{ workspace: a.workspace, space: a.space }}>
            {a.workspace}/{a.space}
          </Link>
          <span title={new Date(a.answeredAt ?? a.expiresAt).toLocaleString()}>
            {ago(a.answeredAt ?? a.expiresAt, now)}
            {a.answeredBy && a.state !== "expired" ? ` by ${a.answeredBy}` : ""}
          </span>
        </span>
        {(a.reason || a.note) && (
          <span className="row-facts">
            {a.reason && <span className="clip" title={a.reason}>asked: “{a.reason}”</span>}
            {a.note && <span className="clip" title={a.note}>answered: “{a.note}”</span>}
          </span>
        )}
      </div>
    </li>
  );
}
