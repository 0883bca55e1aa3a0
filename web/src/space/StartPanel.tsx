import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { closedQuery, doctorQuery } from "../api/queries";
import type { SurfaceReport } from "../api/types";
import { ago } from "../format";
import { closeWords } from "../shell/phase";
import { Button } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { ErrorNote, Loading } from "../ui/Notes";
import { useNow } from "../ui/useNow";
import { pastOf, type SurfaceTab } from "./tabs";

interface Props {
  workspace: string;
  space: string;
  tab: SurfaceTab;
  start: () => void;
  starting: boolean;
  error: Error | null;
  onHistory: () => void;
}

const about: Record<SurfaceTab["surface"], string> = {
  terminal: "A throwaway Linux machine with its own kernel, disk and network. Nothing leaves it but what you admit.",
  browser: "A browser in a throwaway machine of its own.",
  desktop: "A throwaway Linux desktop with its own kernel, disk and network.",
  phone: "A throwaway Android phone in Google's emulator.",
  mac: "A throwaway macOS machine.",
};

/** Stands in a tab without a machine: what would start, whether it can here, and what became of the last one. */
export function StartPanel({ workspace, space, tab, start, starting, error, onHistory }: Props) {
  const doctor = useQuery(doctorQuery);
  const report = doctor.data?.surfaces?.find((s) => s.surface === tab.surface);
  const impossible = doctor.isSuccess && report?.state !== "ready";
  return (
    <div className="centre-panel">
      <section className="start" aria-label={tab.label}>
        <span className="empty-icon">
          <Icon name={tab.icon} size={30} />
        </span>
        <h2>{impossible ? `${tab.label} cannot run here` : `No ${tab.label.toLowerCase()} is running`}</h2>
        <p className="muted">{about[tab.surface]}</p>
        {doctor.isPending && <Loading what="Asking what this host can do" />}
        {doctor.error && <ErrorNote error={doctor.error} onRetry={() => void doctor.refetch()} />}
        {impossible ? (
          <Missing report={report} />
        ) : (
          <>
            {error && <ErrorNote error={error} />}
            <Button look="primary" icon="power" busy={starting || doctor.isPending} onClick={start}>
              Start the machine
            </Button>
            {report && <Enclosure report={report} />}
          </>
        )}
        <LastOne workspace={workspace} space={space} tab={tab} onHistory={onHistory} />
      </section>
    </div>
  );
}

function Enclosure({ report }: { report: SurfaceReport }) {
  if (report.accel === "tcg") return <p className="fine muted">Software emulation: this host has no usable KVM, so it is slower.</p>;
  if (report.accel) return <p className="fine muted">Accelerated by {report.accel === "hvf" ? "Hypervisor.framework" : report.accel.toUpperCase()}.</p>;
  return null;
}

function Missing({ report }: { report: SurfaceReport | undefined }) {
  return (
    <div className="note note-warn missing">
      <Icon name="alert" />
      <div className="note-text">
        <p>{report?.detail || "This server says nothing about this surface: it may be older than the page."}</p>
        {report?.fix && (
          <p>
            <strong>What helps:</strong> {report.fix}
          </p>
        )}
        <p>
          <Link to="/settings/enclosures">What this host can do</Link>
        </p>
      </div>
    </div>
  );
}

function LastOne({ workspace, space, tab, onHistory }: Pick<Props, "workspace" | "space" | "tab" | "onHistory">) {
  const closed = useQuery(closedQuery(workspace, space));
  const now = useNow(30_000);
  const last = pastOf(closed.data ?? [], tab)[0];
  if (!last) return null;
  return (
    <p className="fine muted">
      The last one (<code>{last.id}</code>) was closed {last.closedAt ? ago(last.closedAt, now) : ""}
      {last.closeReason ? `: ${closeWords[last.closeReason] ?? last.closeReason}` : ""}.
      {last.error ? ` ${last.error.detail}` : ""}{" "}
      <button type="button" className="link" onClick={onHistory}>
        What happened in it
      </button>
    </p>
  );
}
