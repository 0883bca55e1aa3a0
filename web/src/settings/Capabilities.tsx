import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { actions, doctorQuery, keys } from "../api/queries";
import type { SurfaceReport } from "../api/types";
import { Button } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { ErrorNote, Loading, Pill, type Tone } from "../ui/Notes";

const tones: Record<SurfaceReport["state"], Tone> = { ready: "good", missing: "warn", unsupported: "mute" };
const accels: Record<string, string> = { tcg: "emulated", kvm: "KVM", hvf: "HVF" };

/** What the host can boot, from trying: the page's rigs doctor. */
export function Capabilities() {
  const doctor = useQuery(doctorQuery);
  const client = useQueryClient();
  const again = useMutation({ mutationFn: actions.freshDoctor, onSuccess: (report) => client.setQueryData(keys.doctor, report) });
  return (
    <section aria-labelledby="cap-title" className="block">
      <div className="block-head">
        <h3 id="cap-title">What this host can do</h3>
        <Button small icon="refresh" busy={again.isPending} onClick={() => again.mutate()}>
          {again.isPending ? "Trying everything" : "Check again"}
        </Button>
      </div>
      {again.error && <ErrorNote error={again.error} />}
      {doctor.isPending && <Loading what="Asking what this host can do" />}
      {doctor.error && !doctor.data && <ErrorNote error={doctor.error} onRetry={() => void doctor.refetch()} />}
      {doctor.data && (
        <>
          <div className="table-wrap">
            <table className="table">
              <thead>
                <tr>
                  <th scope="col">Surface</th>
                  <th scope="col">State</th>
                  <th scope="col">Runs on</th>
                  <th scope="col">Why, and what helps</th>
                </tr>
              </thead>
              <tbody>
                {(doctor.data.surfaces ?? []).map((s) => (
                  <tr key={s.surface}>
                    <th scope="row">{s.surface}</th>
                    <td>
                      <Pill tone={tones[s.state] ?? "mute"}>{s.state}</Pill>
                    </td>
                    <td>{s.accel ? (accels[s.accel] ?? s.accel) : <span className="muted">–</span>}</td>
                    <td>
                      {s.detail}
                      {s.fix && <Fix>{s.fix}</Fix>}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <h4>Checks</h4>
          <ul className="checks">
            {(doctor.data.checks ?? []).map((c) => (
              <li key={c.name}>
                <span className={`tinted ${c.ok ? "tone-good" : "tone-warn"}`}>
                  <Icon name={c.ok ? "check" : "alert"} size={15} />
                </span>
                <span className="sr-only">{c.ok ? "works:" : "does not work:"}</span>
                <strong>{c.name}</strong>
                <span>
                  {c.detail}
                  {!c.ok && c.fix && <Fix>{c.fix}</Fix>}
                </span>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

const Fix = ({ children }: { children: string }) => (
  <span className="fix">
    <strong>What helps:</strong> {children}
  </span>
);
