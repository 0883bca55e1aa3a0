import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { actions, keys, membersQuery } from "../api/queries";
import type { Membership, Role } from "../api/types";
import { Button, IconButton } from "../ui/Button";
import { ErrorNote, Loading } from "../ui/Notes";
import { PeopleOnly } from "../shell/PeopleOnly";

export const roles: { name: Role; about: string }[] = [
  { name: "viewer", about: "sees everything, changes nothing" },
  { name: "member", about: "opens, drives and closes machines; a person also takes control and answers requests" },
  { name: "admin", about: "changes guardrails, members and egress defaults, too" },
  { name: "owner", about: "deletes the workspace, too" },
];

/** Who has a role of their own in a workspace. */
export function Members({ workspace }: { workspace: string }) {
  const members = useQuery(membersQuery(workspace));
  return (
    <section className="block" aria-labelledby="members-title">
      <div className="block-head">
        <h3 id="members-title">Members</h3>
      </div>
      <p className="muted">
        Whoever bears a token has a role, in all workspaces or in some. A role that is given here counts before one for all. An agent is a member at most.
      </p>
      <dl className="facts role-facts">
        {roles.map((r) => (
          <div key={r.name}>
            <dt>{r.name}</dt>
            <dd>{r.about}</dd>
          </div>
        ))}
      </dl>
      {members.isPending && <Loading what="Loading members" />}
      {members.error && <ErrorNote error={members.error} onRetry={() => void members.refetch()} />}
      {members.data?.length === 0 && <p className="hint">Nobody has a role of their own here.</p>}
      {members.data && members.data.length > 0 && (
        <ul className="rows">
          {members.data.map((m) => (
            <MemberRow key={m.principal} workspace={workspace} member={m} />
          ))}
        </ul>
      )}
      {members.data && (
        <PeopleOnly>
          <NewMember workspace={workspace} />
        </PeopleOnly>
      )}
    </section>
  );
}

export function RoleSelect({ label, value, of = roles, onChange }: { label: string; value: Role; of?: typeof roles; onChange: (role: Role) => void }) {
  return (
    <select className="select" aria-label={label} value={value} onChange={(e) => onChange(e.target.value as Role)}>
      {of.map((r) => (
        <option key={r.name} value={r.name}>
          {r.name}
        </option>
      ))}
    </select>
  );
}

function useChanged(workspace: string) {
  const client = useQueryClient();
  return () => client.invalidateQueries({ queryKey: keys.members(workspace) });
}

function MemberRow({ workspace, member: m }: { workspace: string; member: Membership }) {
  const changed = useChanged(workspace);
  const set = useMutation({ mutationFn: (role: Role) => actions.setRole(workspace, m.principal, role), onSuccess: changed });
  const remove = useMutation({ mutationFn: () => actions.removeMember(workspace, m.principal), onSuccess: changed });
  const error = set.error ?? remove.error;
  return (
    <li className="row">
      <div className="row-main">
        <span className="row-name">
          <strong>
            <bdi>{m.principal}</bdi>
          </strong>
        </span>
      </div>
      <span className="row-actions">
        <PeopleOnly otherwise={<span>{m.role}</span>}>
          <RoleSelect label={`Role of ${m.principal}`} value={set.isPending ? set.variables : m.role} onChange={(role) => set.mutate(role)} />
          <IconButton icon="trash" label={`Take the role of ${m.principal} away`} className="icon-btn-small" disabled={remove.isPending} onClick={() => remove.mutate()} />
        </PeopleOnly>
      </span>
      {error && <ErrorNote error={error} />}
    </li>
  );
}

function NewMember({ workspace }: { workspace: string }) {
  const changed = useChanged(workspace);
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("member");
  const id = useId();
  const add = useMutation({
    mutationFn: () => actions.setRole(workspace, name.trim(), role),
    onSuccess: () => {
      setName("");
      void changed();
    },
  });
  return (
    <form
      className="inline-form"
      onSubmit={(e) => {
        e.preventDefault();
        if (name.trim() !== "" && !add.isPending) add.mutate();
      }}
    >
      <div className="field-row">
        <label htmlFor={id} className="sr-only">
          Who is to have a role
        </label>
        <input id={id} className="input" placeholder="name of a person or an agent" value={name} onChange={(e) => { setName(e.target.value); if (add.isError) add.reset(); }} autoComplete="off" autoCapitalize="none" spellCheck={false} maxLength={63} />
        <RoleSelect label="Role" value={role} onChange={setRole} />
        <Button type="submit" busy={add.isPending}>
          Give the role
        </Button>
      </div>
      {add.error && (
        <p className="field-error" role="alert">
          {add.error.message}
        </p>
      )}
    </form>
  );
}
