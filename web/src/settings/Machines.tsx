import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { rigsQuery } from "../api/queries";
import type { Rig } from "../api/types";
import { countdown, megabytes } from "../format";
import { phaseTone, phaseWord } from "../shell/phase";
import { CloseDialog } from "../space/CloseDialog";
import { tabOf } from "../space/tabs";
import { Button } from "../ui/Button";
import { ErrorNote, Loading, Pill } from "../ui/Notes";
import { useNow } from "../ui/useNow";

/** Every machine of this server, whatever space it is in. */
export function Machines() {
  const rigs = useQuery(rigsQuery);
  const now = useNow(1000);
  const [closing, setClosing] = useState<Rig>();
  const running = (rigs.data ?? []).filter((r) => r.phase !== "failed");
  const most = running.reduce((sum, r) => sum + r.resources.memoryMB, 0);
  const resident = running.reduce((sum, r) => sum + (r.residentMB ?? 0), 0);
  return (
    <section aria-labelledby="run-title" className="block">
      <div className="block-head">
        <h3 id="run-title">Running machines</h3>
        {most > 0 && (
          <span className="muted">
            {resident > 0 ? `${megabytes(resident)} in use, ` : ""}
            {megabytes(most)} at most
          </span>
        )}
      </div>
      {rigs.isPending && <Loading what="Loading machines" />}
      {rigs.error && <ErrorNote error={rigs.error} onRetry={() => void rigs.refetch()} />}
      {rigs.data?.length === 0 && <p className="hint">None. Machines are started in a space, with Start the machine.</p>}
      {rigs.data && rigs.data.length > 0 && (
        <div className="table-wrap">
          <table className="table">
            <thead>
              <tr>
                <th scope="col">Machine</th>
                <th scope="col">State</th>
                <th scope="col">Memory</th>
                <th scope="col">Closes in</th>
                <th scope="col">In use by</th>
                <th scope="col">Control</th>
                <th scope="col">
                  <span className="sr-only">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {rigs.data.map((r) => (
                <tr key={r.id}>
                  <th scope="row">
                    <Place rig={r} />
                  </th>
                  <td>
                    <Pill tone={phaseTone(r.phase)}>{phaseWord(r.phase)}</Pill>
                  </td>
                  <td>
                    <Memory rig={r} />
                  </td>
                  <td>{r.phase === "failed" ? <span className="muted">–</span> : countdown((Date.parse(r.expiresAt) - now) / 1000)}</td>
                  <td>{r.inUse?.join(", ") || <span className="muted">nobody</span>}</td>
                  <td>{r.control ? r.control.holder.name : <span className="muted">nobody</span>}</td>
                  <td className="cell-actions">
                    <Button small onClick={() => setClosing(r)} aria-label={`Close ${r.workspace}/${r.space}/${r.engine ?? r.surface}`}>
                      Close
                    </Button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {closing && <CloseDialog rig={closing} onClose={() => setClosing(undefined)} />}
    </section>
  );
}

/** Measured where the server has measured it: the machine and its keeper, shared pages counted once. */
function Memory({ rig }: { rig: Rig }) {
  return (
    <span className="place">
      {rig.residentMB !== undefined && <span>{megabytes(rig.residentMB)}</span>}
      <span className="muted">{rig.residentMB !== undefined ? `of ${megabytes(rig.resources.memoryMB)}` : `${megabytes(rig.resources.memoryMB)} at most`}</span>
    </span>
  );
}

function Place({ rig }: { rig: Rig }) {
  return (
    <span className="place">
      <Link to="/w/$workspace/$space" params={{ workspace: rig.workspace, space: rig.space }} search={{ tab: tabOf(rig) }} className="row-link">
        {rig.workspace}/{rig.space}
      </Link>
      <span className="muted">
        {rig.engine ?? rig.surface} · <code>{rig.id}</code>
      </span>
    </span>
  );
}
