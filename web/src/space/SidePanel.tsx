import type { PanelName } from "../routes";
import type { Rig } from "../api/types";
import { IconButton } from "../ui/Button";
import { Tabs } from "../ui/Tabs";
import { DetailsPanel } from "./DetailsPanel";
import { EgressPanel } from "./EgressPanel";

interface Props {
  rig: Rig;
  shown: PanelName;
  onShow: (name: PanelName | "none") => void;
}

export function SidePanel({ rig, shown, onShow }: Props) {
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
            { name: "details", label: "Details" },
          ]}
        />
        <IconButton icon="close" label="Hide the side panel" onClick={() => onShow("none")} />
      </div>
      <div id="side-panel-body" role="tabpanel" aria-labelledby={`side-tab-${shown}`} className="side-body">
        {shown === "egress" ? <EgressPanel rig={rig} /> : <DetailsPanel rig={rig} />}
      </div>
    </aside>
  );
}
