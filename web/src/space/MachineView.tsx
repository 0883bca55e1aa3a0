import { useMutation, useQueryClient } from "@tanstack/react-query";
import { actions, putRig, rigsQuery } from "../api/queries";
import type { Rig } from "../api/types";
import { Button } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { Empty, ErrorNote, Loading, Progress } from "../ui/Notes";
import { amount } from "../format";
import { useNow } from "../ui/useNow";
import { ControlBar, useControl } from "./ControlBar";
import { StartPanel } from "./StartPanel";
import { TerminalView } from "./TerminalView";
import type { SurfaceTab } from "./tabs";

interface Props {
  workspace: string;
  space: string;
  tab: SurfaceTab;
  rig: Rig | undefined;
  /** Shows the logs of machines that are closed. */
  onHistory: () => void;
}

/** What stands in a surface's tab: the machine, or the way to one. Nothing here starts a machine but a person's click. */
export function MachineView({ workspace, space, tab, rig, onHistory }: Props) {
  const client = useQueryClient();
  const start = useMutation({
    mutationFn: async () => {
      // A failed machine keeps its place in the list until it is closed.
      if (rig?.phase === "failed") putRig(client, await actions.close(rig.id));
      return actions.open({ workspace, space, surface: tab.surface, ...(tab.engine && { engine: tab.engine }) });
    },
    onSuccess: (opened) => {
      putRig(client, opened);
      void client.invalidateQueries({ queryKey: rigsQuery.queryKey });
    },
  });
  const startProps = { workspace, space, tab, start: () => start.mutate(), starting: start.isPending, error: start.error, onHistory };

  if (!rig) return <StartPanel {...startProps} />;
  switch (rig.phase) {
    case "provisioning":
      return <BootProgress rig={rig} label={tab.label} />;
    case "failed":
      return <Failed rig={rig} label={tab.label} onStart={() => start.mutate()} starting={start.isPending} error={start.error} />;
    case "closing":
    case "closed":
      return <Loading what="Closing the machine" />;
    case "ready":
    case "parked":
      return <Live key={rig.id} rig={rig} tab={tab} />;
  }
}

/** A machine that is there, and who has control of it. */
function Live({ rig, tab }: { rig: Rig; tab: SurfaceTab }) {
  const control = useControl(rig);
  return (
    <div className="live">
      <ControlBar rig={rig} control={control} />
      {tab.surface === "terminal" ? <TerminalView rig={rig} watching={control.by === "other"} /> : <NoPicture rig={rig} label={tab.label} />}
    </div>
  );
}

function BootProgress({ rig, label }: { rig: Rig; label: string }) {
  const client = useQueryClient();
  const now = useNow(1000);
  const cancel = useMutation({ mutationFn: () => actions.close(rig.id), onSuccess: (r) => putRig(client, r) });
  const seconds = Math.max(0, Math.round((now - Date.parse(rig.openedAt)) / 1000));
  const step = rig.step;
  return (
    <div className="centre-panel">
      <section className="card boot" aria-label={`Starting ${label}`}>
        <h2>Starting the machine</h2>
        <p className="boot-step" role="status">
          {step?.text ?? "Waiting for the server"}
        </p>
        <Progress label="Progress of this step" done={step?.done} total={step?.total} />
        <p className="boot-foot muted">
          <span>{step?.done !== undefined || step?.total !== undefined ? amount(step.done ?? 0, step.total ?? 0, step.unit) : ""}</span>
          <span>{seconds} s</span>
        </p>
        {cancel.error && <ErrorNote error={cancel.error} />}
        <Button small busy={cancel.isPending} onClick={() => cancel.mutate()}>
          Cancel
        </Button>
      </section>
    </div>
  );
}

function Failed({ rig, label, onStart, starting, error }: { rig: Rig; label: string; onStart: () => void; starting: boolean; error: Error | null }) {
  const client = useQueryClient();
  const close = useMutation({ mutationFn: () => actions.close(rig.id), onSuccess: (r) => putRig(client, r) });
  const what = rig.error?.detail ?? "the server gave no reason";
  return (
    <div className="centre-panel">
      <section className="card failed" aria-label={`${label} failed`}>
        <h2>
          <span className="tone-bad tinted">
            <Icon name="alert" />
          </span>
          The machine failed
        </h2>
        <pre className="failed-text" tabIndex={0} aria-label="Reason">
          {what}
        </pre>
        <p className="muted">
          {rig.error && <code className="code-chip">{rig.error.code}</code>} rig <code>{rig.id}</code>
        </p>
        {(error ?? close.error) && <ErrorNote error={(error ?? close.error) as Error} />}
        <div className="actions">
          <Button look="primary" icon="power" busy={starting} onClick={onStart}>
            Start again
          </Button>
          <Button busy={close.isPending} onClick={() => close.mutate()}>
            Clear it away
          </Button>
        </div>
      </section>
    </div>
  );
}

/** A machine runs that this page cannot show. */
function NoPicture({ rig, label }: { rig: Rig; label: string }) {
  return (
    <Empty icon="desktop" title={`${label} is ${rig.phase === "parked" ? "parked" : "running"}`}>
      <p>This page has no live view of it yet. The side panel shows its network and details; programs drive it through the API.</p>
    </Empty>
  );
}
