import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useId, useLayoutEffect, useMemo, useRef, useState } from "react";
import { actions, egressQuery, entriesQuery, putRules } from "../api/queries";
import type { EgressEvent, Rig } from "../api/types";
import { admitPattern, byHost, type HostSum, mark, matches, reasonText, type Show, target } from "../egress";
import { bytes, clock, ends, plural } from "../format";
import { complain } from "../shell/toasts";
import { Button, IconButton } from "../ui/Button";
import { DurationSelect } from "../ui/Duration";
import { Icon } from "../ui/Icon";
import { ErrorNote, Loading } from "../ui/Notes";
import { useNow } from "../ui/useNow";

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

interface Admission {
  pattern: string;
  seconds?: number;
}

function useRules(rig: Rig) {
  const client = useQueryClient();
  const allow = useMutation({ mutationFn: (a: Admission) => actions.allow(rig.id, a.pattern, a.seconds), onSuccess: (rules) => putRules(client, rig.id, rules) });
  const deny = useMutation({ mutationFn: (pattern: string) => actions.deny(rig.id, pattern), onSuccess: (rules) => putRules(client, rig.id, rules), onError: complain });
  return { allow, deny };
}

function Rules({ rig, live }: { rig: Rig; live: boolean }) {
  const { allow, deny } = useRules(rig);
  const entries = useQuery({ ...entriesQuery(rig.id), enabled: live && rig.phase !== "provisioning" });
  const [pattern, setPattern] = useState("");
  const [seconds, setSeconds] = useState(0);
  const [open, setOpen] = useState(false);
  const id = useId();
  const until = new Map((entries.data ?? []).map((e) => [e.pattern, e.expiresAt]));
  // The patterns are the rig's, which events keep up to date; their ends are asked for and may come a moment later.
  const rules = (rig.egress ?? []).toSorted(byDomain);
  const limited = rules.filter((r) => until.get(r));
  const rest = rules.filter((r) => !until.get(r));
  const row = (rule: string) => <Rule key={rule} rule={rule} expiresAt={until.get(rule)} live={live} busy={deny.isPending && deny.variables === rule} onRemove={() => deny.mutate(rule)} />;
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
            allow.mutate(
              { pattern: pattern.trim(), seconds },
              {
                onSuccess: () => {
                  setPattern("");
                  setOpen(true);
                },
              },
            );
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
          <div className="rules-term">
            <DurationSelect label="It is admitted" value={seconds} onChange={setSeconds} />
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
        <>
          {limited.length > 0 && <ul className="rule-list">{limited.map(row)}</ul>}
          {rest.length > 0 && (
            <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
              <summary>
                <Icon name="chevron" size={12} /> {plural(rest.length, "pattern")} admitted{live ? " while the machine lives" : " at its end"}
              </summary>
              <ul className="rule-list">{rest.map(row)}</ul>
            </details>
          )}
        </>
      )}
    </section>
  );
}

interface RuleProps {
  rule: string;
  expiresAt: string | undefined;
  live: boolean;
  busy: boolean;
  onRemove: () => void;
}

function Rule({ rule, expiresAt, live, busy, onRemove }: RuleProps) {
  const now = useNow(5_000);
  return (
    <li>
      <code className="clip" title={rule}>
        {rule}
      </code>
      <span className="rule-end">
        {expiresAt && (
          <span className="muted" title={new Date(expiresAt).toLocaleString()}>
            {ends(expiresAt, now)}
          </span>
        )}
        {live && <IconButton icon="close" label={`Remove ${rule}: its open connections are closed`} className="icon-btn-small" disabled={busy} onClick={onRemove} />}
      </span>
    </li>
  );
}

/** Orders patterns so that a domain and its sub-domains stand together. */
const byDomain = (a: string, b: string) => a.replace(/^\*\./, "").localeCompare(b.replace(/^\*\./, "")) || a.localeCompare(b);

const shows: { name: Show; label: string }[] = [
  { name: "all", label: "All" },
  { name: "denied", label: "Refused" },
  { name: "allowed", label: "Allowed" },
];

function LogView({ rig, live }: { rig: Rig; live: boolean }) {
  const client = useQueryClient();
  const log = useQuery(egressQuery(client, rig.id));
  const { allow } = useRules(rig);
  const [show, setShow] = useState<Show>("all");
  const [summed, setSummed] = useState(false);
  const [text, setText] = useState("");
  const id = useId();
  const events = useMemo(() => log.data?.events ?? [], [log.data]);
  const shown = useMemo(() => events.filter((e) => matches(e, show, text)), [events, show, text]);
  const hosts = useMemo(() => (summed ? byHost(shown) : []), [summed, shown]);
  const drawn = shown.slice(-DRAWN);
  const denied = events.reduce((n, e) => (e.verdict === "deny" ? n + (e.count ?? 1) : n), 0);
  const list = useFollow(drawn.at(-1)?.seq);
  const lost = log.data?.lost ?? 0;
  const admit = (pattern: string) => allow.mutate({ pattern }, { onError: complain });
  const rules = rig.egress ?? [];

  return (
    <section aria-labelledby={`${id}-title`} className="log">
      <div className="log-head">
        <h2 id={`${id}-title`} className="side-title">
          {live ? "Log" : "Log, as it was kept"}
        </h2>
        <div className="segmented words" role="group" aria-label="Which lines">
          {shows.map((s) => (
            <button key={s.name} type="button" aria-pressed={show === s.name} onClick={() => setShow(s.name)}>
              {s.label}
              {s.name === "denied" && denied > 0 ? ` ${denied > 999 ? "999+" : denied}` : ""}
            </button>
          ))}
        </div>
      </div>
      <div className="log-head">
        <label htmlFor={`${id}-filter`} className="sr-only">
          Filter the log
        </label>
        <input id={`${id}-filter`} className="input input-small" type="search" placeholder="Filter" value={text} onChange={(e) => setText(e.target.value)} autoComplete="off" spellCheck={false} />
        <div className="segmented words" role="group" aria-label="How lines are shown">
          <button type="button" aria-pressed={!summed} onClick={() => setSummed(false)}>
            Lines
          </button>
          <button type="button" aria-pressed={summed} onClick={() => setSummed(true)}>
            By host
          </button>
        </div>
      </div>
      {log.error && <ErrorNote error={log.error} onRetry={() => void log.refetch()} />}
      {log.isPending ? (
        <Loading what="Loading the log" />
      ) : events.length === 0 && !log.error ? (
        <p className="hint">
          {live
            ? "The machine has not tried to reach anything yet. Every connection it tries appears here; refused ones can be admitted with one click."
            : "The machine never tried to reach anything."}
        </p>
      ) : shown.length === 0 && !log.error ? (
        <p className="hint">
          No line matches.{" "}
          <button type="button" className="link" onClick={() => { setShow("all"); setText(""); }}>
            Show all {events.length}
          </button>
        </p>
      ) : summed ? (
        <ul className="log-list" tabIndex={0} aria-label="Hosts, the last used first">
          {lost > 0 && <li className="log-note">without {plural(lost, "older line")} that are no longer kept</li>}
          {hosts.slice(0, DRAWN).map((h) => (
            <Host key={h.target} sum={h} live={live} admitted={h.pattern !== undefined && rules.includes(h.pattern)} busy={allow.isPending && allow.variables.pattern === h.pattern} onAdmit={admit} />
          ))}
          {hosts.length > DRAWN && <li className="log-note">the last {DRAWN} of {hosts.length} hosts</li>}
        </ul>
      ) : (
        <ul ref={list} className="log-list" tabIndex={0} aria-label="Egress log, oldest first">
          {lost > 0 && drawn.length === shown.length && <li className="log-note">{plural(lost, "older line")} no longer kept</li>}
          {drawn.length < shown.length && <li className="log-note">the last {DRAWN} of {shown.length} lines</li>}
          {drawn.map((e) => (
            <Line key={e.seq} event={e} rules={rules} live={live} busy={allow.isPending && allow.variables.pattern === admitPattern(e)} onAdmit={admit} />
          ))}
        </ul>
      )}
    </section>
  );
}

interface HostProps {
  sum: HostSum;
  live: boolean;
  admitted: boolean;
  busy: boolean;
  onAdmit: (pattern: string) => void;
}

function Host({ sum: h, live, admitted, busy, onAdmit }: HostProps) {
  const pattern = h.pattern;
  return (
    <li className={`log-line ${mark(h.last)}`}>
      <time dateTime={h.last.time}>{clock(h.last.time)}</time>
      <span className="log-what">
        <span className="log-target" title={h.target}>
          {h.target}
        </span>
        <span className="log-why">
          {[
            h.refused > 0 && `refused ${h.refused}×`,
            h.connected > 0 && `connected ${h.connected}×`,
            h.bytesOut + h.bytesIn > 0 && `${bytes(h.bytesOut)} out, ${bytes(h.bytesIn)} in`,
            mark(h.last) !== "allowed" && reasonText(h.last.reason),
          ]
            .filter(Boolean)
            .join(" · ") || reasonText(h.last.reason)}
        </span>
      </span>
      {live && pattern !== undefined && <Admit pattern={pattern} admitted={admitted} busy={busy} onAdmit={onAdmit} />}
    </li>
  );
}

function Admit({ pattern, admitted, busy, onAdmit }: { pattern: string; admitted: boolean; busy: boolean; onAdmit: (pattern: string) => void }) {
  if (admitted)
    return (
      <span className="admitted">
        <Icon name="check" size={13} /> admitted
      </span>
    );
  return (
    <Button small busy={busy} onClick={() => onAdmit(pattern)} aria-label={`Admit ${pattern}`}>
      Admit
    </Button>
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
  const ended = e.reason !== "admitted" && (e.bytesIn !== undefined || e.bytesOut !== undefined);
  return (
    <li className={`log-line ${mark(e)}`}>
      <time dateTime={e.time}>{clock(e.time)}</time>
      <span className="log-what">
        <span className="log-target" title={e.address ? `${target(e)} (${e.address})` : target(e)}>
          {target(e)}
          {e.count !== undefined && e.count > 1 && <span className="log-count">×{e.count}</span>}
        </span>
        <span className="log-why">
          <span className="sr-only">{mark(e)}: </span>
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
      {pattern !== undefined && live && <Admit pattern={pattern} admitted={admitted} busy={busy} onAdmit={onAdmit} />}
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
