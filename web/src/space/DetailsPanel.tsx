import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { actions, putRig } from "../api/queries";
import type { Rig } from "../api/types";
import { ago, countdown, imageRef, megabytes, shortDigest } from "../format";
import { phaseTone, phaseWord } from "../shell/phase";
import { Button } from "../ui/Button";
import { Command, CopyButton } from "../ui/Copy";
import { ErrorNote, Pill } from "../ui/Notes";
import { useNow } from "../ui/useNow";
import { CloseDialog } from "./CloseDialog";
import { park } from "./park";

const accels: Record<string, string> = { tcg: "software emulation (slower)", kvm: "KVM", hvf: "Hypervisor.framework" };
const boots: Record<string, string> = { clone: "cloned from a template", cold: "booted from the image" };

/** Everything that is known about a machine, and what can be done with it as a whole. */
export function DetailsPanel({ rig }: { rig: Rig }) {
  const client = useQueryClient();
  const now = useNow(1000);
  const [closing, setClosing] = useState(false);
  const parking = useMutation({
    mutationFn: async () => {
      if (rig.phase === "parked") putRig(client, await actions.wake(rig.id));
      else await park(client, rig.id);
    },
  });
  const image = imageRef(rig.image);
  const ref = `${rig.space}/${rig.surface}${rig.engine ? `:${rig.engine}` : ""}`;
  const left = (Date.parse(rig.expiresAt) - now) / 1000;
  const part = Math.min(1, Math.max(0, left / rig.resources.ttlSeconds));
  const live = rig.phase === "provisioning" || rig.phase === "ready" || rig.phase === "parked";
  return (
    <div className="details">
      <dl className="facts">
        <Fact name="State">
          <Pill tone={phaseTone(rig.phase)}>{phaseWord(rig.phase)}</Pill>
        </Fact>
        <Fact name="Rig">
          <code>{rig.id}</code>
          <CopyButton text={rig.id} label="Copy the id" />
        </Fact>
        <Fact name="Reference">
          <code className="clip">{ref}</code>
          <CopyButton text={ref} label="Copy the reference" />
        </Fact>
        {live && (
          <Fact name="Closes in">
            <span className="ttl">
              <span title={new Date(rig.expiresAt).toLocaleString()}>{left > 0 ? countdown(left) : "any moment"}</span>
              <span className="ttl-bar" aria-hidden="true">
                <span style={{ width: `${part * 100}%` }} />
              </span>
            </span>
          </Fact>
        )}
        <Fact name="In use by">
          {rig.inUse && rig.inUse.length > 0 ? (
            <ul className="plain">
              {rig.inUse.map((u) => (
                <li key={u}>{u}</li>
              ))}
            </ul>
          ) : (
            <span className="muted">nobody{live && rig.phase !== "parked" ? `: parked after ${countdown(rig.resources.idleSeconds)}` : ""}</span>
          )}
        </Fact>
        <Fact name="Image">
          <span>{image.name}</span>
          {image.digest && (
            <>
              <code title={image.digest}>{shortDigest(image.digest)}</code>
              <CopyButton text={rig.image} label="Copy the image's reference with its digest" />
            </>
          )}
        </Fact>
        <Fact name="Memory">{rig.residentMB !== undefined ? `${megabytes(rig.residentMB)} in use of ${megabytes(rig.resources.memoryMB)}` : megabytes(rig.resources.memoryMB)}</Fact>
        <Fact name="Processors">{rig.resources.vcpus}</Fact>
        <Fact name="Disk">{megabytes(rig.resources.diskMB)} at most, thrown away</Fact>
        {rig.accel && <Fact name="Runs on">{accels[rig.accel] ?? rig.accel}</Fact>}
        {rig.boot && <Fact name="Started">{boots[rig.boot] ?? rig.boot}</Fact>}
        <Fact name="Opened">
          <span title={new Date(rig.openedAt).toLocaleString()}>{ago(rig.openedAt, now)}</span> by {rig.openedBy}
        </Fact>
      </dl>
      {rig.error && <ErrorNote error={new Error(rig.error.detail)} />}
      {parking.error && <ErrorNote error={parking.error} />}
      {live && (
        <div className="actions">
          {(rig.phase === "ready" || rig.phase === "parked") && (
            <Button icon={rig.phase === "parked" ? "play" : "pause"} busy={parking.isPending} onClick={() => parking.mutate()}>
              {rig.phase === "parked" ? "Wake" : "Park"}
            </Button>
          )}
          <Button look="danger" icon="power" onClick={() => setClosing(true)}>
            Close the machine
          </Button>
        </div>
      )}
      {rig.surface === "terminal" && live && (
        <section className="elsewhere">
          <h2 className="side-title">From a terminal of yours</h2>
          <Command>{`rigs shell ${rig.id}`}</Command>
          <Command>{`rigs exec ${rig.id} -- uname -a`}</Command>
        </section>
      )}
      {closing && <CloseDialog rig={rig} onClose={() => setClosing(false)} />}
    </div>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}
