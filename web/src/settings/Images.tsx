import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { segment } from "../api/http";
import { actions, imagesQuery, keys } from "../api/queries";
import type { Image } from "../api/types";
import { ago, bytes, shortDigest } from "../format";
import { Button, IconButton } from "../ui/Button";
import { CopyButton } from "../ui/Copy";
import { Confirm } from "../ui/Dialog";
import { ErrorNote, Loading, Pill, type Tone } from "../ui/Notes";
import { useNow } from "../ui/useNow";
import { JobProgress } from "./JobProgress";
import { useJob } from "./useJob";
import { PeopleOnly } from "../shell/PeopleOnly";

const tones: Record<Image["state"], Tone> = { ready: "good", missing: "warn", corrupt: "bad" };

export function Images() {
  const images = useQuery(imagesQuery);
  const [doomed, setDoomed] = useState<Image>();
  return (
    <section aria-labelledby="img-title" className="block">
      <div className="block-head">
        <h3 id="img-title">Images</h3>
      </div>
      <p className="muted">What machines boot from, read-only and pinned by digest.</p>
      {images.isPending && <Loading what="Loading images" />}
      {images.error && <ErrorNote error={images.error} onRetry={() => void images.refetch()} />}
      {images.data?.length === 0 && <p className="hint">This server has no image definitions.</p>}
      {images.data && images.data.length > 0 && (
        <ul className="rows">
          {images.data.map((i) => (
            <ImageRow key={i.name} image={i} onDelete={() => setDoomed(i)} />
          ))}
        </ul>
      )}
      {doomed && <RemoveImage image={doomed} onClose={() => setDoomed(undefined)} />}
    </section>
  );
}

const nothing = {};

function ImageRow({ image, onDelete }: { image: Image; onDelete: () => void }) {
  const client = useQueryClient();
  const now = useNow(30_000);
  const after = useCallback(() => {
    void client.invalidateQueries({ queryKey: keys.images });
    void client.invalidateQueries({ queryKey: keys.templates });
    void client.invalidateQueries({ queryKey: keys.doctor });
  }, [client]);
  const job = useJob(`/v1/images/${segment(image.name)}/build`, nothing, after);
  return (
    <li className="row">
      <div className="row-main">
        <span className="row-name">
          <strong>{image.name}</strong>
          <Pill tone={tones[image.state] ?? "mute"}>{image.state}</Pill>
        </span>
        <span className="row-facts">
          {image.digest && (
            <span className="pair">
              <code title={image.digest}>{shortDigest(image.digest)}</code>
              <CopyButton text={`${image.name}@${image.digest}`} label="Copy the reference with its digest" />
            </span>
          )}
          {image.sizeBytes > 0 && <span>{bytes(image.sizeBytes)}</span>}
          {image.createdAt && <span>built {ago(image.createdAt, now)}</span>}
          <span className="muted">
            {image.default ? "default for " : "for "}
            {(image.surfaces ?? []).join(", ") || "no surface"}
          </span>
          {image.detail && <span className="muted">{image.detail}</span>}
        </span>
      </div>
      <PeopleOnly>
        <span className="row-actions">
          <Button small busy={job.step !== undefined} onClick={job.run}>
            {job.step ? "Building" : image.state === "ready" ? "Build again" : "Build"}
          </Button>
          <IconButton icon="trash" label={`Remove image ${image.name}`} className="icon-btn-small" disabled={image.state === "missing" || job.step !== undefined} onClick={onDelete} />
        </span>
      </PeopleOnly>
      {job.step && <JobProgress step={job.step} />}
      {job.error && <ErrorNote error={job.error} />}
    </li>
  );
}

function RemoveImage({ image, onClose }: { image: Image; onClose: () => void }) {
  const client = useQueryClient();
  const remove = useMutation({
    mutationFn: () => actions.removeImage(image.name),
    onSuccess: () => {
      onClose();
      void client.invalidateQueries({ queryKey: keys.images });
    },
  });
  return (
    <Confirm title={`Remove the image ${image.name}?`} action="Remove" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate()} onClose={onClose}>
      <p>It has to be built again before the next machine can start from it.</p>
    </Confirm>
  );
}
