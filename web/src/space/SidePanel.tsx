import type { PanelName } from "../routes";
import type { Rig } from "../api/types";
import { ago } from "../format";
import { IconButton } from "../ui/Button";
import { Tabs } from "../ui/Tabs";
import { useNow } from "../ui/useNow";
import { AuditPanel } from "./AuditPanel";
import { DetailsPanel } from "./DetailsPanel";
import { EgressPanel } from "./EgressPanel";

interface Props {
  rig: Rig;
  /** Machines of this tab that are closed, where none lives: their logs outlive them. */
  past: readonly Rig[];
  onPick: (id: string) => void;
  shown: PanelName;
  onShow: (name: PanelName | "none") => void;
}

export function SidePanel({ rig, past, onPick, shown, onShow }: Props) {
  return (
    <aside id="side-panel" className="side" aria-label="About the machine" data-region="side">
      <div className="side-head">
        <Tabs
          id="side"
          label="About the machine"
          current={shown}
          onSelect={onShow}
          tabs={[
            { name: "egress", label: "Egress" },
            { name: "audit", label: "Audit" },
            { name: "details", label: "Details" },
          ]}
        />
        <IconButton icon="close" label="Hide the side panel" onClick={() => onShow("none")} />
      </div>
      <div id="side-panel-body" role="tabpanel" aria-labelledby={`side-tab-${shown}`} className="side-body">
        {rig.phase === "closed" && <Past rig={rig} past={past} onPick={onPick} />}
        {shown === "egress" ? <EgressPanel key={rig.id} rig={rig} /> : shown === "audit" ? <AuditPanel key={rig.id} rig={rig} /> : <DetailsPanel key={rig.id} rig={rig} />}
      </div>
    </aside>
  );
}

function Past({ rig, past, onPick }: Pick<Props, "rig" | "past" | "onPick">) {
  const now = useNow(30_000);
  const words = (r: Rig) => `${r.id}, closed ${r.closedAt ? ago(r.closedAt, now) : ""}`;
  return (
    <div className="past">
      {past.length > 1 ? (
        <label className="inline-field">
          <span>A closed machine:</span>
          <select className="select" value={rig.id} onChange={(e) => onPick(e.target.value)}>
            {past.map((r) => (
              <option key={r.id} value={r.id}>
                {words(r)}
              </option>
            ))}
          </select>
        </label>
      ) : (
        <span>A closed machine: {words(rig)}</span>
      )}
    </div>
  );
}
