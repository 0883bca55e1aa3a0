import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { actions, keys, rulesQuery, spacesQuery } from "../api/queries";
import type { Class, Effect, Mode, NewRule, Rule } from "../api/types";
import { ago } from "../format";
import { complain } from "../shell/toasts";
import { Button, IconButton } from "../ui/Button";
import { ErrorNote, Loading, Pill, type Tone } from "../ui/Notes";
import { useNow } from "../ui/useNow";
import { PeopleOnly } from "../shell/PeopleOnly";

/** The classes of actions, with what they are and what holds where no rule says otherwise (internal/server/authority). */
const classes: { name: Class; label: string; about: string; without: Effect }[] = [
  { name: "enclosureControl", label: "Driving machines", about: "Opening, driving and closing machines, in whatever way.", without: "allow" },
  { name: "processSpawn", label: "Running programs", about: "Running a program or a shell in a machine.", without: "allow" },
  { name: "networkEgress", label: "Reaching hosts", about: "Letting a machine reach a host that is not on its list.", without: "ask" },
  { name: "secretAccess", label: "Secrets", about: "Obtaining a credential, or reading a clipboard.", without: "ask" },
];
const tones: Record<Effect, Tone> = { allow: "good", ask: "info", deny: "bad" };
const effects: { name: Effect; label: string }[] = [
  { name: "ask", label: "ask a person" },
  { name: "deny", label: "deny" },
  { name: "allow", label: "allow" },
];

export function Guardrails({ workspace }: { workspace: string }) {
  const client = useQueryClient();
  const rules = useQuery(rulesQuery(workspace));
  const remove = useMutation({
    mutationFn: (id: string) => actions.removeRule(workspace, id),
    onSuccess: () => client.invalidateQueries({ queryKey: keys.rules(workspace) }),
    onError: complain,
  });
  return (
    <section className="block" aria-labelledby="rules-title">
      <div className="block-head">
        <h3 id="rules-title">Guardrails</h3>
      </div>
      <p className="muted">
        They hold agents, not people. The most specific rule decides: one for a space before one for an agent, before one for a mode, before one for the whole workspace; among
        equals the most restrictive. Asking with nobody there to answer is a denial.
      </p>
      {rules.isPending && <Loading what="Loading guardrails" />}
      {rules.error && <ErrorNote error={rules.error} onRetry={() => void rules.refetch()} />}
      {rules.data &&
        classes.map((c) => (
          <div key={c.name} className="rule-class">
            <h4>
              {c.label} <code>{c.name}</code>
            </h4>
            <p className="muted fine">{c.about}</p>
            <ul className="rows" aria-label={`Rules for ${c.label.toLowerCase()}`}>
              {rules.data
                .filter((r) => r.class === c.name)
                .map((r) => (
                  <RuleRow key={r.id} rule={r} busy={remove.isPending && remove.variables === r.id} onRemove={() => remove.mutate(r.id)} />
                ))}
              <li className="row">
                <span className="row-name">
                  <Pill tone={tones[c.without]}>{c.without}</Pill>
                  <span className="muted">where no rule says otherwise</span>
                </span>
              </li>
            </ul>
          </div>
        ))}
      {rules.data && (
        <PeopleOnly>
          <NewRuleForm workspace={workspace} />
        </PeopleOnly>
      )}
    </section>
  );
}

/** scopeWords says where a rule holds. */
function scopeWords(r: Rule): string {
  const parts = [r.space && `in space ${r.space}`, r.agent && `for agent ${r.agent}`, r.mode && `in ${r.mode === "readOnly" ? "read-only" : "normal"} spaces`].filter(Boolean);
  return parts.length > 0 ? parts.join(", ") : "in the whole workspace";
}

function RuleRow({ rule: r, busy, onRemove }: { rule: Rule; busy: boolean; onRemove: () => void }) {
  const now = useNow(30_000);
  return (
    <li className="row">
      <div className="row-main">
        <span className="row-name">
          <Pill tone={tones[r.effect]}>{r.effect}</Pill>
          <span>{scopeWords(r)}</span>
        </span>
        <span className="row-facts">
          <span>
            written {ago(r.createdAt, now)} by {r.createdBy}
          </span>
        </span>
      </div>
      <span className="row-actions">
        <PeopleOnly>
          <IconButton icon="trash" label={`Remove the rule ${r.effect} ${scopeWords(r)}`} className="icon-btn-small" disabled={busy} onClick={onRemove} />
        </PeopleOnly>
      </span>
    </li>
  );
}

function NewRuleForm({ workspace }: { workspace: string }) {
  const client = useQueryClient();
  const spaces = useQuery(spacesQuery(workspace));
  const [cls, setClass] = useState<Class>("processSpawn");
  const [effect, setEffect] = useState<Effect>("ask");
  const [space, setSpace] = useState("");
  const [agent, setAgent] = useState("");
  const [mode, setMode] = useState<Mode | "">("");
  const add = useMutation({
    mutationFn: (rule: NewRule) => actions.addRule(workspace, rule),
    onSuccess: () => {
      setAgent("");
      void client.invalidateQueries({ queryKey: keys.rules(workspace) });
    },
  });
  return (
    <form
      className="rule-form"
      aria-label="New guardrail"
      onSubmit={(e) => {
        e.preventDefault();
        if (!add.isPending) add.mutate({ class: cls, effect, ...(space && { space }), ...(agent.trim() && { agent: agent.trim() }), ...(mode && { mode }) });
      }}
      onChange={() => add.isError && add.reset()}
    >
      <select className="select" aria-label="What" value={cls} onChange={(e) => setClass(e.target.value as Class)}>
        {classes.map((c) => (
          <option key={c.name} value={c.name}>
            {c.label}
          </option>
        ))}
      </select>
      <select className="select" aria-label="Effect" value={effect} onChange={(e) => setEffect(e.target.value as Effect)}>
        {effects.map((f) => (
          <option key={f.name} value={f.name}>
            {f.label}
          </option>
        ))}
      </select>
      <select className="select" aria-label="Space" value={space} onChange={(e) => setSpace(e.target.value)}>
        <option value="">in every space</option>
        {(spaces.data ?? []).map((s) => (
          <option key={s.name} value={s.name}>
            in {s.name}
          </option>
        ))}
      </select>
      <input className="input" aria-label="Agent" placeholder="for every agent" value={agent} onChange={(e) => setAgent(e.target.value)} autoComplete="off" autoCapitalize="none" spellCheck={false} maxLength={63} />
      <select className="select" aria-label="Mode" value={mode} onChange={(e) => setMode(e.target.value as Mode | "")}>
        <option value="">in every mode</option>
        <option value="normal">in normal spaces</option>
        <option value="readOnly">in read-only spaces</option>
      </select>
      <Button type="submit" busy={add.isPending}>
        Add the rule
      </Button>
      {add.error && (
        <p className="field-error" role="alert">
          {add.error.message}
        </p>
      )}
    </form>
  );
}
