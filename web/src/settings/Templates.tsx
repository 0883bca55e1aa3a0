import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { actions, keys, templatesQuery } from "../api/queries";
import type { Template } from "../api/types";
import { ago, bytes, imageRef, megabytes, shortDigest } from "../format";
import { Button, IconButton } from "../ui/Button";
import { Confirm } from "../ui/Dialog";
import { ErrorNote, Loading, Pill, type Tone } from "../ui/Notes";
import { useNow } from "../ui/useNow";
import { JobProgress } from "./JobProgress";
import { useJob } from "./useJob";
import { PeopleOnly } from "../shell/PeopleOnly";

const tones: Record<Template["state"], Tone> = { ready: "good", stale: "warn", corrupt: "bad" };
const terminal = { surface: "terminal" };

export function Templates() {
  const templates = useQuery(templatesQuery);
  const client = useQueryClient();
  const now = useNow(30_000);
  const [doomed, setDoomed] = useState<Template>();
  const after = useCallback(() => void client.invalidateQueries({ queryKey: keys.templates }), [client]);
  const job = useJob("/v1/templates", terminal, after);
  return (
    <section aria-labelledby="tpl-title" className="block">
      <div className="block-head">
        <h3 id="tpl-title">Templates</h3>
        <PeopleOnly>
          <Button small icon="plus" busy={job.step !== undefined} onClick={job.run}>
            {job.step ? "Making" : "Make one for terminals"}
          </Button>
        </PeopleOnly>
      </div>
      <p className="muted">Machines that were booted once and frozen. New ones are cloned from them in a fraction of a second.</p>
      {job.step && <JobProgress step={job.step} />}
      {job.error && <ErrorNote error={job.error} />}
      {templates.isPending && <Loading what="Loading templates" />}
      {templates.error && <ErrorNote error={templates.error} onRetry={() => void templates.refetch()} />}
      {templates.data?.length === 0 && <p className="hint">None yet. The first machine that starts makes one, and takes longer for it.</p>}
      {templates.data && templates.data.length > 0 && (
        <ul className="rows">
          {templates.data.map((t) => (
            <li key={t.key} className="row">
              <div className="row-main">
                <span className="row-name">
                  <strong>{t.engine ?? t.surface}</strong>
                  <Pill tone={tones[t.state] ?? "mute"}>{t.state}</Pill>
                </span>
                <span className="row-facts">
                  <code title={t.key}>{t.key.slice(0, 12)}</code>
                  <span>
                    {imageRef(t.image).name} <code title={t.image}>{shortDigest(imageRef(t.image).digest)}</code>
                  </span>
                  <span>
                    {megabytes(t.memoryMB)}, {t.vcpus} vCPU, {t.accel}
                  </span>
                  <span>{bytes(t.sizeBytes)}</span>
                  <span>made {ago(t.createdAt, now)}</span>
                  {t.detail && <span className="muted">{t.detail}</span>}
                </span>
              </div>
              <span className="row-actions">
                <PeopleOnly>
                  <IconButton icon="trash" label={`Remove template ${t.key.slice(0, 12)}`} className="icon-btn-small" onClick={() => setDoomed(t)} />
                </PeopleOnly>
              </span>
            </li>
          ))}
        </ul>
      )}
      {doomed && <RemoveTemplate template={doomed} onClose={() => setDoomed(undefined)} />}
    </section>
  );
}

function RemoveTemplate({ template, onClose }: { template: Template; onClose: () => void }) {
  const client = useQueryClient();
  const remove = useMutation({
    mutationFn: () => actions.removeTemplate(template.key),
    onSuccess: () => {
      onClose();
      void client.invalidateQueries({ queryKey: keys.templates });
    },
  });
  return (
    <Confirm title="Remove the template?" action="Remove" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate()} onClose={onClose}>
      <p>The next {template.engine ?? template.surface} is booted from its image, and a new template is made.</p>
    </Confirm>
  );
}
