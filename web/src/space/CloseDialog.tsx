import { useMutation, useQueryClient } from "@tanstack/react-query";
import { actions, putRig } from "../api/queries";
import type { Rig } from "../api/types";
import { Confirm } from "../ui/Dialog";

export function CloseDialog({ rig, onClose }: { rig: Rig; onClose: () => void }) {
  const client = useQueryClient();
  const close = useMutation({
    mutationFn: () => actions.close(rig.id),
    onSuccess: (r) => {
      onClose();
      putRig(client, r);
    },
  });
  return (
    <Confirm title="Close the machine?" action="Close the machine" busy={close.isPending} error={close.error} onConfirm={() => close.mutate()} onClose={onClose}>
      <p>
        {rig.engine ?? rig.surface} <code>{rig.id}</code> in {rig.workspace}/{rig.space} ends, and everything on its disk is thrown away.
      </p>
      {rig.inUse && rig.inUse.length > 0 && <p>It is in use: {rig.inUse.join(", ")}.</p>}
    </Confirm>
  );
}
