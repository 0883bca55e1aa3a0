import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { closedQuery, rigsQuery, spacesQuery } from "../api/queries";
import { Problem } from "../api/http";
import { phaseTone, phaseWord } from "../shell/phase";
import { IconButton } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { Empty, ErrorNote, Loading, Pill } from "../ui/Notes";
import { Tabs } from "../ui/Tabs";
import { useTitle } from "../ui/useTitle";
import { MachineView } from "./MachineView";
import { SidePanel } from "./SidePanel";
import { pastOf, rigsOf, surfaceTabs, type SurfaceTab, type TabName } from "./tabs";

const route = getRouteApi("/w/$workspace/$space");

/** Whether the panel is open when an address does not say: where there is room for it. */
const roomy = () => window.matchMedia("(min-width: 1100px)").matches;

/** A space: one tab per surface, the machine of the chosen one, and what is known about it. */
export function SpacePage() {
  const { workspace, space } = route.useParams();
  const search = route.useSearch();
  const navigate = useNavigate();
  const rigs = useQuery(rigsQuery);
  const spaces = useQuery(spacesQuery(workspace));
  const [panelDefault] = useState(roomy);
  useTitle(`${space} · ${workspace}`);

  const tab: SurfaceTab = surfaceTabs.find((t) => t.name === search.tab) ?? surfaceTabs[0];
  const machines = rigsOf(rigs.data ?? [], workspace, space, tab);
  const [chosen, setChosen] = useState<string>();
  const rig = machines.find((r) => r.id === chosen) ?? machines[0];
  // Where no machine lives, the panel shows the logs of those that did, to whoever opens it.
  const closed = useQuery(closedQuery(workspace, space));
  const past = rig ? [] : pastOf(closed.data ?? [], tab);
  const about = rig ?? past.find((r) => r.id === chosen) ?? past[0];
  const panel = search.panel ?? (panelDefault && rig ? "egress" : "none");
  const open = panel !== "none" && about !== undefined;

  const go = (next: { tab?: TabName; panel?: typeof panel }) =>
    void navigate({ to: "/w/$workspace/$space", params: { workspace, space }, search: { ...search, ...next }, replace: true });

  useEffect(() => {
    if (!open || panelDefault) return;
    const onKey = (e: KeyboardEvent) => {
      // On narrow screens the panel lies over the machine, like a dialog.
      if (e.key === "Escape" && !(e.target instanceof Element && e.target.closest(".xterm, dialog, input"))) go({ panel: "none" });
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  });

  const gone =
    (spaces.error instanceof Problem && spaces.error.code === "notFound") || (spaces.isSuccess && !spaces.isFetching && !spaces.data.some((s) => s.name === space) && !rig);
  if (gone) {
    return (
      <Empty icon="terminal" title={`There is no space ${space} in ${workspace}`} action={<Link to="/" className="btn btn-plain">All spaces</Link>}>
        It may have been deleted. Create a space of that name with the plus beside the workspace.
      </Empty>
    );
  }

  return (
    <div className="space">
      <header className="space-head" data-region="tabs">
        <h1 className="crumbs">
          <span className="crumb-workspace clip">{workspace}</span>
          <span className="crumb-sep" aria-hidden="true">
            /
          </span>
          <span className="clip">{space}</span>
          {spaces.data?.find((s) => s.name === space)?.mode === "readOnly" && (
            <span title="Agents look at the machines of this space and change nothing">
              <Pill tone="warn">read only</Pill>
            </span>
          )}
        </h1>
        <Tabs
          id="surface"
          label="Surfaces"
          className="surface-tabs"
          current={tab.name}
          onSelect={(name) => go({ tab: name })}
          tabs={surfaceTabs.map((t) => {
            const own = rigsOf(rigs.data ?? [], workspace, space, t)[0];
            return {
              name: t.name,
              spoken: own ? `${t.label}, ${phaseWord(own.phase)}` : t.label,
              label: (
                <>
                  <Icon name={t.icon} size={15} />
                  {t.label}
                  {own && <span className={`dot tone-${phaseTone(own.phase)}`} aria-hidden="true" />}
                </>
              ),
            };
          })}
        />
        <div className="head-end">
          {machines.length > 1 && (
            <select className="select" aria-label="Machine" value={rig?.id} onChange={(e) => setChosen(e.target.value)}>
              {machines.map((m) => (
                <option key={m.id} value={m.id}>
                  {m.id} · {phaseWord(m.phase)}
                </option>
              ))}
            </select>
          )}
          <IconButton
            icon="panel"
            label={open ? "Hide the side panel" : "Show the side panel"}
            aria-expanded={open}
            aria-controls="side-panel"
            disabled={!about}
            onClick={() => go({ panel: open ? "none" : "egress" })}
          />
        </div>
      </header>
      <div className="space-body">
        <section id="surface-panel" role="tabpanel" aria-labelledby={`surface-tab-${tab.name}`} className="machine">
          {rigs.error && !rigs.data ? (
            <div className="pad">
              <ErrorNote error={rigs.error} onRetry={() => void rigs.refetch()} />
            </div>
          ) : rigs.isPending ? (
            <Loading what="Looking for the machine" />
          ) : (
            <MachineView key={`${workspace}/${space}/${tab.name}`} workspace={workspace} space={space} tab={tab} rig={rig} onHistory={() => go({ panel: "audit" })} />
          )}
        </section>
        {open && <SidePanel rig={about} past={past} onPick={setChosen} shown={panel} onShow={(name) => go({ panel: name })} />}
      </div>
    </div>
  );
}
