import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { actions, approvalsQuery, keys, rigsQuery, serverQuery, spacesQuery, workspacesQuery } from "../api/queries";
import type { Rig, Space, Workspace } from "../api/types";
import { plural } from "../format";
import { IconButton } from "../ui/Button";
import { Confirm } from "../ui/Dialog";
import { Icon } from "../ui/Icon";
import { ErrorNote, Loading } from "../ui/Notes";
import { setTheme, useTheme, type Theme } from "../ui/theme";
import { NameForm } from "./NameForm";
import { phaseTone, phaseWord } from "./phase";
import { complain } from "./toasts";
import { PeopleOnly } from "./PeopleOnly";

type Doomed = { kind: "workspace"; name: string; rigs: number } | { kind: "space"; workspace: string; name: string; rigs: number };

export function Sidebar() {
  const workspaces = useQuery(workspacesQuery);
  const [adding, setAdding] = useState(false);
  const [doomed, setDoomed] = useState<Doomed>();
  const client = useQueryClient();
  return (
    <div className="sidebar" id="sidebar" data-region="sidebar">
      <div className="sidebar-head">
        <Link to="/" className="brand">
          <span className="brand-mark" aria-hidden="true">
            <Icon name="terminal" size={14} />
          </span>
          Rigs
        </Link>
        <PeopleOnly>
          <IconButton icon="plus" label="New workspace" aria-expanded={adding} onClick={() => setAdding(!adding)} />
        </PeopleOnly>
      </div>
      <nav className="sidebar-nav" aria-label="Workspaces and spaces">
        {adding && (
          <NameForm
            label="Name of the new workspace"
            placeholder="workspace name"
            action="Create"
            onCancel={() => setAdding(false)}
            onSubmit={async (name) => {
              await actions.createWorkspace(name);
              await client.invalidateQueries({ queryKey: keys.workspaces });
              setAdding(false);
            }}
          />
        )}
        {workspaces.data ? (
          <ul className="workspaces">
            {workspaces.data.map((w) => (
              <WorkspaceItem key={w.name} workspace={w} onDelete={setDoomed} />
            ))}
          </ul>
        ) : workspaces.error ? (
          <ErrorNote error={workspaces.error} onRetry={() => void workspaces.refetch()} />
        ) : (
          <Loading what="Loading workspaces" />
        )}
        {workspaces.data?.length === 0 && <p className="hint">No workspace yet. Create one with the plus above.</p>}
      </nav>
      <SidebarFoot />
      {doomed && <DeleteDialog what={doomed} onClose={() => setDoomed(undefined)} />}
    </div>
  );
}

function WorkspaceItem({ workspace, onDelete }: { workspace: Workspace; onDelete: (what: Doomed) => void }) {
  const spaces = useQuery(spacesQuery(workspace.name));
  const rigs = useQuery(rigsQuery);
  const [open, setOpen] = useState(true);
  const [adding, setAdding] = useState(false);
  const client = useQueryClient();
  const navigate = useNavigate();
  const listId = `spaces-${workspace.name}`;
  const mine = (rigs.data ?? []).filter((r) => r.workspace === workspace.name);
  return (
    <li>
      <div className="workspace-row">
        <button type="button" className="workspace-toggle" aria-expanded={open} aria-controls={listId} onClick={() => setOpen(!open)}>
          <Icon name="chevron" size={12} />
          <span className="clip">{workspace.name}</span>
        </button>
        <span className="row-actions">
          <IconButton
            icon="plus"
            label={`New space in ${workspace.name}`}
            className="icon-btn-small"
            aria-expanded={adding}
            onClick={() => {
              setOpen(true);
              setAdding(!adding);
            }}
          />
          <Link to="/settings/workspaces/$workspace" params={{ workspace: workspace.name }} className="icon-btn icon-btn-small on-hover" aria-label={`Settings of workspace ${workspace.name}`} title={`Settings of workspace ${workspace.name}`}>
            <Icon name="settings" size={15} />
          </Link>
          <PeopleOnly>
            <IconButton
              icon="trash"
              label={`Delete workspace ${workspace.name}`}
              className="icon-btn-small on-hover"
              onClick={() => onDelete({ kind: "workspace", name: workspace.name, rigs: mine.length })}
            />
          </PeopleOnly>
        </span>
      </div>
      {open && (
        <div id={listId}>
          {adding && (
            <NameForm
              label={`Name of the new space in ${workspace.name}`}
              placeholder="space name"
              action="Create"
              onCancel={() => setAdding(false)}
              onSubmit={async (name) => {
                await actions.createSpace(workspace.name, name);
                await client.invalidateQueries({ queryKey: keys.spaces(workspace.name) });
                setAdding(false);
                await navigate({ to: "/w/$workspace/$space", params: { workspace: workspace.name, space: name } });
              }}
            />
          )}
          {spaces.error && <ErrorNote error={spaces.error} onRetry={() => void spaces.refetch()} />}
          {spaces.data && (
            <ul className="spaces">
              {spaces.data.map((s) => (
                <SpaceItem key={s.name} space={s} rigs={mine.filter((r) => r.space === s.name)} onDelete={onDelete} />
              ))}
            </ul>
          )}
          {spaces.data?.length === 0 && !adding && (
            <button type="button" className="add-first" onClick={() => setAdding(true)}>
              <Icon name="plus" size={12} /> New space
            </button>
          )}
        </div>
      )}
    </li>
  );
}

/** How many requests wait for an answer. */
const Count = ({ n }: { n: number }) => (
  <span className="count-badge">
    {n}
    <span className="sr-only"> waiting</span>
  </span>
);

function SpaceItem({ space, rigs, onDelete }: { space: Space; rigs: Rig[]; onDelete: (what: Doomed) => void }) {
  const waiting = useQuery(approvalsQuery).data?.filter((a) => a.workspace === space.workspace && a.space === space.name).length ?? 0;
  return (
    <li className="space-row">
      <Link to="/w/$workspace/$space" params={{ workspace: space.workspace, space: space.name }} className="space-link" activeOptions={{ includeSearch: false }}>
        <span className="clip">{space.name}</span>
        {space.mode === "readOnly" && <Icon name="eye" size={14} />}
        {waiting > 0 && <Count n={waiting} />}
        {rigs.map((r) => (
          <span key={r.id} className={`dot tone-${phaseTone(r.phase)}`} role="img" aria-label={`${r.engine ?? r.surface} ${phaseWord(r.phase)}`} title={`${r.engine ?? r.surface}: ${phaseWord(r.phase)}`} />
        ))}
      </Link>
      <IconButton
        icon="trash"
        label={`Delete space ${space.name}`}
        className="icon-btn-small on-hover"
        onClick={() => onDelete({ kind: "space", workspace: space.workspace, name: space.name, rigs: rigs.length })}
      />
    </li>
  );
}

function DeleteDialog({ what, onClose }: { what: Doomed; onClose: () => void }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const params = useParams({ strict: false });
  const remove = useMutation({
    mutationFn: async () => {
      await (what.kind === "workspace" ? actions.deleteWorkspace(what.name) : actions.deleteSpace(what.workspace, what.name));
      const shown = what.kind === "workspace" ? params.workspace === what.name : params.workspace === what.workspace && params.space === what.name;
      if (shown) await navigate({ to: "/" });
      await Promise.all([
        client.invalidateQueries({ queryKey: keys.workspaces }),
        client.invalidateQueries({ queryKey: what.kind === "workspace" ? ["spaces"] : keys.spaces(what.workspace) }),
      ]);
    },
    onSuccess: onClose,
  });
  return (
    <Confirm title={`Delete the ${what.kind} ${what.name}?`} action="Delete" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate()} onClose={onClose}>
      {what.rigs > 0 ? (
        <p>
          Its {plural(what.rigs, "machine")} {what.rigs === 1 ? "is" : "are"} closed, and everything in {what.rigs === 1 ? "it" : "them"} is lost.
        </p>
      ) : (
        <p>No machine runs in it. {what.kind === "workspace" ? "Its spaces go too." : ""}</p>
      )}
    </Confirm>
  );
}

const themes: { name: Theme; icon: "auto" | "sun" | "moon"; label: string }[] = [
  { name: "system", icon: "auto", label: "Follow the system" },
  { name: "light", icon: "sun", label: "Light" },
  { name: "dark", icon: "moon", label: "Dark" },
];

function SidebarFoot() {
  const theme = useTheme();
  const server = useQuery(serverQuery);
  const client = useQueryClient();
  const waiting = useQuery(approvalsQuery).data?.length ?? 0;
  const signOut = useMutation({
    mutationFn: actions.signOut,
    onSuccess: () => {
      client.clear();
      // Asks the server anew, from the start page, with nothing of this sign-in in memory.
      window.location.assign("/");
    },
    onError: complain,
  });
  return (
    <div className="sidebar-foot">
      <Link to="/approvals" className="foot-link">
        <Icon name="bell" /> <span className="grow">Approvals</span>
        {waiting > 0 && <Count n={waiting} />}
      </Link>
      <Link to="/settings/enclosures" className="foot-link" activeProps={{ "aria-current": "page" }}>
        <Icon name="settings" /> Settings
      </Link>
      <div className="foot-row">
        <span className="who clip" title={server.data ? `${server.data.principal.name} (${server.data.principal.kind})` : undefined}>
          {server.data?.principal.name}
        </span>
        <div className="segmented" role="group" aria-label="Colours">
          {themes.map((t) => (
            <button key={t.name} type="button" aria-label={t.label} title={t.label} aria-pressed={theme === t.name} onClick={() => setTheme(t.name)}>
              <Icon name={t.icon} size={14} />
            </button>
          ))}
        </div>
        <IconButton icon="signout" label="Sign out" onClick={() => signOut.mutate()} />
      </div>
    </div>
  );
}
