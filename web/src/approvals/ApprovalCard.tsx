import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useId, useState } from "react";
import { secondsLeft } from "../api/approvals";
import { Problem } from "../api/http";
import { actions, keys, putApproval, rigsQuery } from "../api/queries";
import type { Approval } from "../api/types";
import { countdown } from "../format";
import { tabOf } from "../space/tabs";
import { DurationSelect } from "../ui/Duration";
import { Button } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { ErrorNote, Pill } from "../ui/Notes";
import { useNow } from "../ui/useNow";
import { asksTo, ruleWords, scopeWords, stateTones, stateWords, what, type Scope } from "./words";
import { PeopleOnly } from "../shell/PeopleOnly";

const scopes: readonly Scope[] = ["space", "agent", "workspace"];

/** One question: who asks for what, in whose words, how long there is to answer, and the answer. */
export function ApprovalCard({ approval: a }: { approval: Approval }) {
  const client = useQueryClient();
  const id = useId();
  const left = secondsLeft(a, useNow(1000));
  const over = a.state !== "pending" || left === 0;
  const [seconds, setSeconds] = useState(a.ttlSeconds ?? 0);
  const [remember, setRemember] = useState<Scope | "">("");
  const [note, setNote] = useState<string>();
  const answer = useMutation({
    mutationFn: (how: "approve" | "deny") =>
      actions.answer(a.id, how, {
        ...(how === "approve" && a.kind === "egress" && { ttlSeconds: seconds }),
        ...(a.kind === "action" && remember !== "" && { remember }),
        ...(note?.trim() && { note: note.trim() }),
      }),
    onSuccess: (answered) => putApproval(client, answered),
    // Somebody else was faster, or it is gone: what became of it is asked for.
    onError: (err) => {
      if (err instanceof Problem && ["conflict", "gone", "notFound"].includes(err.code)) void client.invalidateQueries({ queryKey: keys.approvals });
    },
  });
  useEffect(() => {
    if (left > 0 || a.state !== "pending") return;
    // The server says so too; its word may have been lost.
    const timer = setTimeout(() => void client.invalidateQueries({ queryKey: keys.approvals }), 2000);
    return () => clearTimeout(timer);
  }, [left, a.state, client]);

  return (
    <article className={`approval ${over ? "approval-over" : ""}`} aria-labelledby={`${id}-title`}>
      <header className="approval-head">
        <span className="approval-icon">
          <Icon name={a.kind === "egress" ? "gate" : a.class === "secretAccess" ? "key" : "terminal"} />
        </span>
        <h3 id={`${id}-title`}>
          <bdi className="approval-who">{a.by.name}</bdi> asks to {asksTo(a)}
        </h3>
        {!over && (
          <span className={`approval-left ${left <= 30 ? "urgent" : ""}`} title="No answer by then counts as denied">
            <span className="sr-only">time left: </span>
            {countdown(left)}
          </span>
        )}
      </header>
      {a.kind === "action" && a.summary ? (
        <figure className="approval-what quoted">
          <figcaption>What it would do</figcaption>
          <code tabIndex={0} dir="ltr">
            {a.summary}
          </code>
        </figure>
      ) : (
        <p className="approval-what">
          <code>{a.pattern || a.verb}</code>
        </p>
      )}
      {a.reason && <Quoted from={`${a.by.kind === "agent" ? "The agent's" : "Their"} reason, unchecked`}>{a.reason}</Quoted>}
      <Place approval={a} />
      {over ? (
        <p className="approval-end" role="status">
          <Pill tone={a.state === "pending" ? "mute" : stateTones[a.state]}>{a.state === "pending" ? stateWords.expired : stateWords[a.state]}</Pill>
          {a.answeredBy && a.state !== "expired" && <span className="muted">by {a.answeredBy}</span>}
          {a.note && <span className="muted clip">“{a.note}”</span>}
          {answer.data && a.kind === "action" && remember !== "" && <span className="approval-rule">A rule was written: {ruleWords(a, remember, a.state === "approved")}.</span>}
        </p>
      ) : (
        <PeopleOnly>
          <div className="approval-terms">
            {a.kind === "egress" ? (
              <DurationSelect label="Admit it" value={seconds} asked={a.ttlSeconds ?? 0} onChange={setSeconds} />
            ) : (
              <label className="inline-field">
                <span>Remember this</span>
                <select className="select" value={remember} onChange={(e) => setRemember(e.target.value as Scope | "")}>
                  <option value="">no, just this once</option>
                  {scopes.map((scope) => (
                    <option key={scope} value={scope}>
                      for {scopeWords(a, scope)}
                    </option>
                  ))}
                </select>
              </label>
            )}
            {note === undefined && (
              <button type="button" className="link fine" onClick={() => setNote("")}>
                Add a note
              </button>
            )}
          </div>
          {note !== undefined && (
            <input className="input input-small" aria-label={`Note to ${a.by.name}`} placeholder={`what ${a.by.name} is told`} value={note} maxLength={1000} onChange={(e) => setNote(e.target.value)} autoFocus />
          )}
          {a.kind === "action" && remember !== "" && (
            <p className="approval-place" role="status">
              Approve writes a rule: {ruleWords(a, remember, true)}. Deny writes that they may not.
            </p>
          )}
          {answer.error && <ErrorNote error={answer.error} />}
          <div className="approval-actions">
            <Button busy={answer.isPending && answer.variables === "deny"} onClick={() => !answer.isPending && answer.mutate("deny")} aria-label={`Deny ${what(a)}`}>
              Deny
            </Button>
            <Button look="primary" busy={answer.isPending && answer.variables === "approve"} onClick={() => !answer.isPending && answer.mutate("approve")} aria-label={`Approve ${what(a)}`}>
              Approve
            </Button>
          </div>
        </PeopleOnly>
      )}
    </article>
  );
}

/** What somebody else said: shown as theirs, as text, bounded in height. */
function Quoted({ from, children }: { from: string; children: string }) {
  return (
    <figure className="quoted">
      <figcaption>{from}</figcaption>
      <blockquote tabIndex={0} dir="auto">
        {children}
      </blockquote>
    </figure>
  );
}

function Place({ approval: a }: { approval: Approval }) {
  const rig = useQuery(rigsQuery).data?.find((r) => r.id === a.rigId);
  return (
    <p className="approval-place">
      in{" "}
      <Link to="/w/$workspace/$space" params={{ workspace: a.workspace, space: a.space }} search={rig ? { tab: tabOf(rig) } : {}}>
        {a.workspace}/{a.space}
      </Link>
      {a.rigId && (
        <>
          {" "}
          · {rig ? (rig.engine ?? rig.surface) : "machine"} <code>{a.rigId}</code>
        </>
      )}
    </p>
  );
}
