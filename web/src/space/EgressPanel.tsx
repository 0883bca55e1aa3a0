import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useId, useLayoutEffect, useMemo, useRef, useState } from "react";
import { actions, egressQuery, putRules } from "../api/queries";
import type { EgressEvent, Rig } from "../api/types";
import { admitPattern, matches, reasonText, target, type Show } from "../egress";
import { bytes, clock, plural } from "../format";
import { complain } from "../shell/toasts";
import { Button, IconButton } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { ErrorNote, Loading } from "../ui/Notes";

/** The most lines that are drawn; the filter looks at all that are kept. */
const DRAWN = 300;

/** What the machine may reach, what it tried to, and one click between the two. */
export function EgressPanel({ rig }: { rig: Rig }) {
  const live = rig.phase === "provisioning" || rig.phase === "ready" || rig.phase === "parked";
  return (
    <div className="egress">
      <Rules rig={rig} live={live} />
      <LogView rig={rig} live={live} />
    </div>
  );
}

function useRules(rig: Rig) {
  const client = useQueryClient();
  const allow = useMutation({ mutationFn: (pattern: string) => actions.allow(rig.id, pattern), onSuccess: (rules) => putRules(client, rig.id, rules) });
  const deny = useMutation({ mutationFn: (pattern: string) => actions.deny(rig.id, pattern), onSuccess: (rules) => putRules(client, rig.id, rules), onError: complain });
  return { allow, deny };
}

function Rules({ rig, live }: { rig: Rig; live: boolean }) {
  const { allow, deny } = useRules(rig);
  const [pattern, setPattern] = useState("");
  const [open, setOpen] = useState(false);
  const id = useId();
  const rules = rig.egress ?? [];
  return (
    <section aria-labelledby={`${id}-title`} className="rules">
      <h2 id={`${id}-title`} className="side-title">
        Admitted hosts
      </h2>
      {live && (
        <form
          onSubmit={(e) => {
            e.preventDefault();
            if (pattern.trim() === "" || allow.isPending) return;
            allow.mutate(pattern.trim(), {
              onSuccess: () => {
                setPattern("");
                setOpen(true);
              },
            });
          }}
        >
          <label htmlFor={id} className="sr-only">
            Host to admit
          </label>
          <div className="field-row">
            <input
              id={id}
              className="input mono"
              placeholder="example.com, *.example.com:8443"
              value={pattern}
              onChange={(e) => {
                setPattern(e.target.value);
                allow.reset();
              }}
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              aria-invalid={allow.isError || undefined}
              aria-describedby={allow.isError ? `${id}-error` : undefined}
            />
            <Button type="submit" busy={allow.isPending}>
              Admit
            </Button>
          </div>
          {allow.isError && (
            <p id={`${id}-error`} className="field-error" role="alert">
              {allow.error.message}
            </p>
          )}
        </form>
      )}
      {rules.length === 0 ? (
        <p className="hint">Nothing is admitted: the machine has no network.</p>
      ) : (
        <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
          <summary>
            <Icon name="chevron" size={12} /> {plural(rules.length, "pattern")} admitted
          </summary>
          <ul className="rule-list">
            {rules.toSorted(byDomain).map((rule) => (
              <li key={rule}>
                <code className="clip">{rule}</code>
                {live && (
                  <IconButton
                    icon="close"
                    label={`Remove ${rule}: its open connections are closed`}
                    className="icon-btn-small"
                    disabled={deny.isPending && deny.variables === rule}
                    onClick={() => deny.mutate(rule)}
                  />
                )}
              </li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

/** Orders patterns so that a domain and its sub-domains stand together. */
const byDomain = (a: string, b: string) => a.replace(/^\*\./, "").localeCompare(b.replace(/^\*\./, "")) || a.localeCompare(b);

function LogView({ rig, live }: { rig: Rig; live: boolean }) {
  const client = useQueryClient();
  const log = useQuery(egressQuery(client, rig.id));
  const { allow } = useRules(rig);
  const [show, setShow] = useState<Show>("all");
  const [text, setText] = useState("");
  const id = useId();
  const events = useMemo(() => log.data?.events ?? [], [log.data]);
  const shown = useMemo(() => events.filter((e) => matches(e, show, text)), [events, show, text]);
  const drawn = shown.slice(-DRAWN);
  const denied = events.reduce((n, e) => (e.verdict === "deny" ? n + (e.count ?? 1) : n), 0);
  const list = useFollow(drawn.at(-1)?.seq);

  return (
    <section aria-labelledby={`${id}-title`} className="log">
      <div className="log-head">
        <h2 id={`${id}-title`} className="side-title">
          Log
        </h2>
        <div className="segmented words" role="group" aria-label="Which lines">
          <button type="button" aria-pressed={show === "all"} onClick={() => setShow("all")}>
            All
          </button>
          <button type="button" aria-pressed={show === "denied"} onClick={() => setShow("denied")}>
            Denied{denied > 0 ? ` ${denied > 999 ? "999+" : denied}` : ""}
          </button>
        </div>
        <label htmlFor={`${id}-filter`} className="sr-only">
          Filter the log
        </label>
        <input id={`${id}-filter`} className="input input-small" type="search" placeholder="Filter" value={text} onChange={(e) => setText(e.target.value)} autoComplete="off" spellCheck={false} />
      </div>
      {log.error && <ErrorNote error={log.error} onRetry={() => void log.refetch()} />}
      {log.isPending ? (
        <Loading what="Loading the log" />
      ) : events.length === 0 && !log.error ? (
        <p className="hint">
          The machine has not tried to reach anything yet. Every connection it tries appears here; refused ones can be admitted with one click.
        </p>
      ) : shown.length === 0 ? (
        <p className="hint">
          No line matches.{" "}
          <button type="button" className="link" onClick={() => { setShow("all"); setText(""); }}>
            Show all {events.length}
          </button>
        </p>
      ) : (
        <ul ref={list} className="log-list" tabIndex={0} aria-label="Egress log, oldest first">
          {(log.data?.lost ?? 0) > 0 && drawn.length === shown.length && <li className="log-note">{plural(log.data?.lost ?? 0, "older line")} no longer kept</li>}
          {drawn.length < shown.length && <li className="log-note">the last {DRAWN} of {shown.length} lines</li>}
          {drawn.map((e) => (
            <Line
              key={e.seq}
              event={e}
              rules={rig.egress ?? []}
              live={live}
              busy={allow.isPending && allow.variables === admitPattern(e)}
              onAdmit={(pattern) => allow.mutate(pattern, { onError: complain })}
            />
          ))}
        </ul>
      )}
    </section>
  );
}

interface LineProps {
  event: EgressEvent;
  rules: readonly string[];
  live: boolean;
  busy: boolean;
  onAdmit: (pattern: string) => void;
}

function Line({ event: e, rules, live, busy, onAdmit }: LineProps) {
  const pattern = admitPattern(e);
  const admitted = pattern !== undefined && rules.includes(pattern);
  const ended = e.reason === "closed" && (e.bytesIn !== undefined || e.bytesOut !== undefined);
  return (
    <li className={`log-line ${e.verdict === "deny" ? "denied" : ""}`}>
      <time dateTime={e.time}>{clock(e.time)}</time>
      <span className="log-what">
        <span className="log-target" title={e.address ? `${target(e)} (${e.address})` : target(e)}>
          {target(e)}
          {e.count !== undefined && e.count > 1 && <span className="log-count">×{e.count}</span>}
        </span>
        <span className="log-why">
          <span className="sr-only">{e.verdict === "deny" ? "denied: " : "allowed: "}</span>
          {reasonText(e.reason)}
          {e.protocol !== "tcp" && <span> · {e.protocol}</span>}
          {ended && (
            <span>
              {" "}
              · {bytes(e.bytesOut ?? 0)} out, {bytes(e.bytesIn ?? 0)} in
            </span>
          )}
        </span>
      </span>
      {pattern !== undefined &&
        live &&
        (admitted ? (
          <span className="admitted">
            <Icon name="check" size={13} /> admitted
          </span>
        ) : (
          <Button small busy={busy} onClick={() => onAdmit(pattern)} aria-label={`Admit ${pattern}`}>
            Admit
          </Button>
        ))}
    </li>
  );
}

/** useFollow keeps a list at its end while lines are added, unless somebody has scrolled up to read. */
function useFollow(last: number | undefined) {
  const ref = useRef<HTMLUListElement>(null);
  const atEnd = useRef(true);
  const measured = useRef(0);
  useLayoutEffect(() => {
    const el = ref.current;
    if (!el) return;
    // Before this change the end was in view if the scroll position reached the height measured then.
    atEnd.current = measured.current === 0 || el.scrollTop + el.clientHeight >= measured.current - 24;
    if (atEnd.current) el.scrollTop = el.scrollHeight;
    measured.current = el.scrollHeight;
  }, [last]);
  return ref;
}
