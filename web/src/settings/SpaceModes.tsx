import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { actions, keys, spacesQuery } from "../api/queries";
import type { Mode, Space } from "../api/types";
import { ErrorNote, Loading } from "../ui/Notes";
import { PeopleOnly } from "../shell/PeopleOnly";

const modes: { name: Mode; label: string }[] = [
  { name: "normal", label: "Normal" },
  { name: "readOnly", label: "Read only" },
];

/** How each space of a workspace is worked in. */
export function SpaceModes({ workspace }: { workspace: string }) {
  const spaces = useQuery(spacesQuery(workspace));
  return (
    <section className="block" aria-labelledby="modes-title">
      <div className="block-head">
        <h3 id="modes-title">Spaces</h3>
      </div>
      <p className="muted">In a read-only space agents look at machines and change nothing, whatever the guardrails say. People go on as before.</p>
      {spaces.isPending && <Loading what="Loading spaces" />}
      {spaces.error && <ErrorNote error={spaces.error} onRetry={() => void spaces.refetch()} />}
      {spaces.data?.length === 0 && <p className="hint">No space yet.</p>}
      {spaces.data && spaces.data.length > 0 && (
        <ul className="rows">
          {spaces.data.map((s) => (
            <ModeRow key={s.name} space={s} />
          ))}
        </ul>
      )}
    </section>
  );
}

function ModeRow({ space }: { space: Space }) {
  const client = useQueryClient();
  const change = useMutation({
    mutationFn: (mode: Mode) => actions.setMode(space.workspace, space.name, mode),
    onSuccess: () => client.invalidateQueries({ queryKey: keys.spaces(space.workspace) }),
  });
  const mode = space.mode ?? "normal";
  return (
    <li className="row">
      <div className="row-main">
        <span className="row-name">
          <Link to="/w/$workspace/$space" params={{ workspace: space.workspace, space: space.name }} className="row-link">
            {space.name}
          </Link>
        </span>
      </div>
      <PeopleOnly otherwise={<span>{modes.find((m) => m.name === mode)?.label}</span>}>
        <div className="segmented words" role="group" aria-label={`Mode of ${space.name}`}>
          {modes.map((m) => (
            <button key={m.name} type="button" aria-pressed={mode === m.name} onClick={() => mode !== m.name && !change.isPending && change.mutate(m.name)}>
              {m.label}
            </button>
          ))}
        </div>
      </PeopleOnly>
      {change.error && <ErrorNote error={change.error} />}
    </li>
  );
}
