import { useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { actions, keys, rigsQuery, spacesQuery, workspacesQuery } from "../api/queries";
import { ago } from "../format";
import { Button } from "../ui/Button";
import { Empty, ErrorNote, Loading, Pill } from "../ui/Notes";
import { useNow } from "../ui/useNow";
import { useTitle } from "../ui/useTitle";
import { NameForm } from "./NameForm";
import { phaseTone, phaseWord } from "./phase";

/** Every space at a glance. */
export function HomePage() {
  useTitle("Spaces");
  const workspaces = useQuery(workspacesQuery);
  const rigs = useQuery(rigsQuery);
  const lists = useQueries({ queries: (workspaces.data ?? []).map((w) => spacesQuery(w.name)) });
  const [adding, setAdding] = useState(false);
  const client = useQueryClient();
  const navigate = useNavigate();
  const now = useNow(30_000);
  const target = workspaces.data?.find((w) => w.name === "default")?.name ?? workspaces.data?.[0]?.name ?? "default";
  const spaces = lists.flatMap((l) => l.data ?? []);
  const failed = workspaces.error ?? rigs.error ?? lists.find((l) => l.error)?.error;
  const loading = workspaces.isPending || lists.some((l) => l.isPending);
  const form = (
    <NameForm
      label="Name of the new space"
      placeholder="space name, such as fix-login"
      action="Create"
      onCancel={() => setAdding(false)}
      onSubmit={async (name) => {
        await actions.createSpace(target, name);
        await client.invalidateQueries({ queryKey: keys.spaces(target) });
        await navigate({ to: "/w/$workspace/$space", params: { workspace: target, space: name } });
      }}
    />
  );
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>Spaces</h1>
          <p className="muted">A space is a conversation or a pull request. Its machines belong to it and go with it.</p>
        </div>
        {!adding && (
          <Button look="primary" icon="plus" onClick={() => setAdding(true)}>
            New space
          </Button>
        )}
      </header>
      {adding && <div className="inline-form">{form}</div>}
      {failed && <ErrorNote error={failed} onRetry={() => void client.invalidateQueries()} />}
      {loading ? (
        <Loading what="Loading spaces" />
      ) : spaces.length === 0 ? (
        !failed && (
          <Empty icon="terminal" title="No space yet" action={!adding && <Button look="primary" icon="plus" onClick={() => setAdding(true)}>New space</Button>}>
            <p>Create one here, or let a command do it:</p>
            <p>
              <code>rigs open terminal --space my-space</code>
            </p>
          </Empty>
        )
      ) : (
        <table className="table">
          <thead>
            <tr>
              <th scope="col">Space</th>
              <th scope="col">Workspace</th>
              <th scope="col">Machines</th>
              <th scope="col">Created</th>
            </tr>
          </thead>
          <tbody>
            {spaces.map((s) => {
              const mine = (rigs.data ?? []).filter((r) => r.workspace === s.workspace && r.space === s.name);
              return (
                <tr key={`${s.workspace}/${s.name}`}>
                  <th scope="row">
                    <Link to="/w/$workspace/$space" params={{ workspace: s.workspace, space: s.name }} className="row-link">
                      {s.name}
                    </Link>
                  </th>
                  <td>{s.workspace}</td>
                  <td>
                    <span className="pills">
                      {mine.length === 0 && <span className="muted">none</span>}
                      {mine.map((r) => (
                        <Pill key={r.id} tone={phaseTone(r.phase)}>
                          {r.engine ?? r.surface} · {phaseWord(r.phase)}
                        </Pill>
                      ))}
                    </span>
                  </td>
                  <td className="muted">{ago(s.createdAt, now)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
    </div>
  );
}
