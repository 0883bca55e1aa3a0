import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { workspacesQuery } from "../api/queries";
import { Empty } from "../ui/Notes";
import { useTitle } from "../ui/useTitle";
import { EgressDefaults } from "./EgressDefaults";
import { Guardrails } from "./Guardrails";
import { Members } from "./Members";
import { SpaceModes } from "./SpaceModes";

const route = getRouteApi("/settings/workspaces/$workspace");

/** What holds in a workspace: guardrails, who may do what, how its spaces are worked in, what its machines may reach from the start. */
export function WorkspacePage() {
  const { workspace } = route.useParams();
  const workspaces = useQuery(workspacesQuery);
  useTitle(`${workspace} · Settings`);
  if (workspaces.isSuccess && !workspaces.isFetching && !workspaces.data.some((w) => w.name === workspace)) {
    return (
      <Empty icon="settings" title={`There is no workspace ${workspace}`} action={<Link to="/" className="btn btn-plain">All spaces</Link>}>
        It may have been deleted.
      </Empty>
    );
  }
  return (
    <div className="page" key={workspace}>
      <header className="page-head">
        <div>
          <h2>Workspace {workspace}</h2>
          <p className="muted">What agents may do in its spaces, and who decides.</p>
        </div>
      </header>
      <Guardrails workspace={workspace} />
      <SpaceModes workspace={workspace} />
      <Members workspace={workspace} />
      <EgressDefaults workspace={workspace} />
    </div>
  );
}
