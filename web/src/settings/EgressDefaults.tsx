import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { actions, defaultsQuery, keys } from "../api/queries";
import type { SurfaceEgress } from "../api/types";
import { plural } from "../format";
import { Button, IconButton } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { ErrorNote, Loading } from "../ui/Notes";
import { PeopleOnly } from "../shell/PeopleOnly";

/** What machines of a workspace may reach from the start, and what it changes in the lists that come with the server. */
export function EgressDefaults({ workspace }: { workspace: string }) {
  const defaults = useQuery(defaultsQuery(workspace));
  return (
    <section className="block" aria-labelledby="defaults-title">
      <div className="block-head">
        <h3 id="defaults-title">What machines may reach from the start</h3>
      </div>
      <p className="muted">It counts for machines that are opened from now on. What a machine that runs may reach is changed in its side panel.</p>
      {defaults.isPending && <Loading what="Loading egress defaults" />}
      {defaults.error && <ErrorNote error={defaults.error} onRetry={() => void defaults.refetch()} />}
      {(defaults.data ?? []).map((s) => (
        <Surface key={s.surface} workspace={workspace} all={defaults.data ?? []} own={s} />
      ))}
    </section>
  );
}

function Surface({ workspace, all, own }: { workspace: string; all: readonly SurfaceEgress[]; own: SurfaceEgress }) {
  const client = useQueryClient();
  const [pattern, setPattern] = useState("");
  const id = useId();
  const add = own.add ?? [];
  const remove = own.remove ?? [];
  const effective = own.effective ?? [];
  const put = useMutation({
    mutationFn: (next: { add: string[]; remove: string[] }) =>
      // The whole is replaced at once; of the other surfaces what is known is sent along.
      actions.setDefaults(workspace, all.map((s) => (s.surface === own.surface ? { surface: s.surface, ...next } : { surface: s.surface, add: s.add ?? [], remove: s.remove ?? [] }))),
    onSuccess: (surfaces) => client.setQueryData(keys.defaults(workspace), surfaces),
  });
  const change = (next: { add?: string[]; remove?: string[] }, then?: () => void) => {
    if (!put.isPending) put.mutate({ add, remove, ...next }, { onSuccess: () => then?.() });
  };
  return (
    <div className="rule-class">
      <h4>{own.surface}</h4>
      <PeopleOnly>
        <form
          className="inline-form"
          onSubmit={(e) => {
            e.preventDefault();
            const p = pattern.trim();
            if (p !== "") change({ add: [...add.filter((x) => x !== p), p] }, () => setPattern(""));
          }}
        >
          <div className="field-row">
            <label htmlFor={id} className="sr-only">
              Host to admit from the start in every {own.surface}
            </label>
            <input id={id} className="input mono" placeholder="example.com, *.example.com:8443" value={pattern} onChange={(e) => { setPattern(e.target.value); if (put.isError) put.reset(); }} autoComplete="off" autoCapitalize="none" spellCheck={false} aria-invalid={put.isError || undefined} />
            <Button type="submit" busy={put.isPending}>
              Add
            </Button>
          </div>
          {put.error && (
            <p className="field-error" role="alert">
              {put.error.message}
            </p>
          )}
        </form>
      </PeopleOnly>
      {(add.length > 0 || remove.length > 0) && (
        <ul className="changes" aria-label={`Changes for ${own.surface}`}>
          {add.map((p) => (
            <li key={`+${p}`}>
              <span className="change tone-good">added</span> <code className="clip">{p}</code>
              <PeopleOnly>
                <IconButton icon="close" label={`Do not add ${p} any more`} className="icon-btn-small" onClick={() => change({ add: add.filter((x) => x !== p) })} />
              </PeopleOnly>
            </li>
          ))}
          {remove.map((p) => (
            <li key={`-${p}`}>
              <span className="change tone-bad">removed</span> <code className="clip">{p}</code>
              <PeopleOnly>
                <IconButton icon="refresh" label={`Put ${p} back`} className="icon-btn-small" onClick={() => change({ remove: remove.filter((x) => x !== p) })} />
              </PeopleOnly>
            </li>
          ))}
        </ul>
      )}
      {effective.length === 0 ? (
        <p className="hint">Nothing is admitted from the start.</p>
      ) : (
        <details className="fold">
          <summary>
            <Icon name="chevron" size={12} /> {plural(effective.length, "pattern")} in effect
          </summary>
          <ul className="rule-list">
            {effective.map((p) => (
              <li key={p}>
                <code className="clip" title={p}>
                  {p}
                </code>
                {!add.includes(p) && (
                  <PeopleOnly>
                    <IconButton icon="close" label={`Start without ${p}`} className="icon-btn-small" onClick={() => change({ remove: [...remove, p] })} />
                  </PeopleOnly>
                )}
              </li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}
