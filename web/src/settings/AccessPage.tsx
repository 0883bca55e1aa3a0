import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { json, request, segment } from "../api/http";
import { workspacesQuery } from "../api/queries";
import type { CreatedToken, Role, SigninLink, Token } from "../api/types";
import { ago } from "../format";
import { Button, IconButton } from "../ui/Button";
import { CopyButton } from "../ui/Copy";
import { Confirm } from "../ui/Dialog";
import { ErrorNote, Loading } from "../ui/Notes";
import { useNow } from "../ui/useNow";
import { useTitle } from "../ui/useTitle";
import { RoleSelect, roles } from "./Members";
import { PeopleOnly } from "../shell/PeopleOnly";

const key = ["tokens"] as const;

/** Who may talk to this server: tokens for programs, links for browsers. */
export function AccessPage() {
  useTitle("Access · Settings");
  const tokens = useQuery({ queryKey: key, queryFn: async ({ signal }) => (await json<{ tokens: Token[] | null }>("/v1/tokens", { signal })).tokens ?? [] });
  const now = useNow(30_000);
  const [doomed, setDoomed] = useState<Token>();
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h2>Access</h2>
          <p className="muted">Programs bring a token. Browsers are let in by a one-time link.</p>
        </div>
      </header>
      <section className="block" aria-labelledby="tok-title">
        <div className="block-head">
          <h3 id="tok-title">Tokens</h3>
        </div>
        <PeopleOnly>
          <NewToken />
        </PeopleOnly>
        {tokens.isPending && <Loading what="Loading tokens" />}
        {tokens.error && <ErrorNote error={tokens.error} onRetry={() => void tokens.refetch()} />}
        {tokens.data?.length === 0 && <p className="hint">No token yet. On the server itself the rigs command needs none.</p>}
        {tokens.data && tokens.data.length > 0 && (
          <ul className="rows">
            {tokens.data.map((t) => (
              <li key={t.id} className="row">
                <div className="row-main">
                  <span className="row-name">
                    <strong>{t.name}</strong> <span className="muted">{t.kind}</span>
                  </span>
                  <span className="row-facts">
                    <span>made {ago(t.createdAt, now)}</span>
                    <span>{t.lastUsedAt ? `last used ${ago(t.lastUsedAt, now)}` : "never used"}</span>
                    <span>{t.expiresAt ? `until ${new Date(t.expiresAt).toLocaleString()}` : "does not expire"}</span>
                  </span>
                </div>
                <span className="row-actions">
                  <PeopleOnly>
                    <IconButton icon="trash" label={`Revoke ${t.name}`} className="icon-btn-small" onClick={() => setDoomed(t)} />
                  </PeopleOnly>
                </span>
              </li>
            ))}
          </ul>
        )}
      </section>
      <PeopleOnly>
        <SigninLink />
      </PeopleOnly>
      {doomed && <Revoke token={doomed} onClose={() => setDoomed(undefined)} />}
    </div>
  );
}

function NewToken() {
  const client = useQueryClient();
  const [name, setName] = useState("");
  const [kind, setKind] = useState<Token["kind"]>("agent");
  const [role, setRole] = useState<Role>("member");
  const [workspace, setWorkspace] = useState("");
  const workspaces = useQuery(workspacesQuery);
  const possible = kind === "agent" ? roles.filter((r) => r.name === "viewer" || r.name === "member") : roles; // an agent can be no more
  const id = useId();
  const create = useMutation({
    mutationFn: () => json<CreatedToken>("/v1/tokens", { method: "POST", body: { name: name.trim(), kind, role, workspace: workspace === "" ? undefined : workspace } }),
    onSuccess: () => {
      setName("");
      void client.invalidateQueries({ queryKey: key });
    },
  });
  return (
    <>
      <form
        className="inline-form"
        onSubmit={(e) => {
          e.preventDefault();
          if (name.trim() !== "" && !create.isPending) create.mutate();
        }}
      >
        <div className="field-row">
          <label htmlFor={id} className="sr-only">
            Who bears the token
          </label>
          <input id={id} className="input" placeholder="who bears it, such as build-agent" value={name} onChange={(e) => { setName(e.target.value); if (create.isError) create.reset(); }} autoComplete="off" spellCheck={false} />
          <select
            className="select"
            aria-label="Kind"
            value={kind}
            onChange={(e) => {
              setKind(e.target.value as Token["kind"]);
              setRole("member");
            }}
          >
            <option value="agent">agent</option>
            <option value="person">person</option>
          </select>
          <RoleSelect label="Role" value={role} of={possible} onChange={setRole} />
          <select className="select" aria-label="Workspace" value={workspace} onChange={(e) => setWorkspace(e.target.value)}>
            <option value="">in all workspaces</option>
            {workspaces.data?.map((w) => (
              <option key={w.name} value={w.name}>
                in {w.name}
              </option>
            ))}
          </select>
          <Button type="submit" busy={create.isPending}>
            Make a token
          </Button>
        </div>
        {create.isError && (
          <p className="field-error" role="alert">
            {create.error.message}
          </p>
        )}
      </form>
      {create.data && (
        <div className="note note-good" role="status">
          <div className="note-text">
            <p>
              The token of {create.data.name}. It is shown this once:
            </p>
            <p className="secret">
              <code>{create.data.token}</code>
              <CopyButton text={create.data.token} label="Copy the token" />
            </p>
          </div>
          <IconButton icon="close" label="I have it" onClick={() => create.reset()} />
        </div>
      )}
    </>
  );
}

function SigninLink() {
  const make = useMutation({ mutationFn: () => json<SigninLink>("/v1/signin-links", { method: "POST" }) });
  return (
    <section className="block" aria-labelledby="link-title">
      <div className="block-head">
        <h3 id="link-title">Another browser</h3>
        <Button small icon="key" busy={make.isPending} onClick={() => make.mutate()}>
          Make a sign-in link
        </Button>
      </div>
      <p className="muted">Whoever opens the link is signed in as you. It works once.</p>
      {make.error && <ErrorNote error={make.error} />}
      {make.data && (
        <p className="secret" role="status">
          <code>{make.data.url}</code>
          <CopyButton text={make.data.url} label="Copy the link" />
          <span className="muted">until {new Date(make.data.expiresAt).toLocaleTimeString()}</span>
        </p>
      )}
    </section>
  );
}

function Revoke({ token, onClose }: { token: Token; onClose: () => void }) {
  const client = useQueryClient();
  const revoke = useMutation({
    mutationFn: () => request(`/v1/tokens/${segment(token.id)}`, { method: "DELETE" }),
    onSuccess: () => {
      onClose();
      void client.invalidateQueries({ queryKey: key });
    },
  });
  return (
    <Confirm title={`Revoke the token of ${token.name}?`} action="Revoke" busy={revoke.isPending} error={revoke.error} onConfirm={() => revoke.mutate()} onClose={onClose}>
      <p>Whoever uses it is refused from now on.</p>
    </Confirm>
  );
}
