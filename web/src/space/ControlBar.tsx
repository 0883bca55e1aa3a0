import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, useSyncExternalStore } from "react";
import { feed } from "../api/client";
import { actions, putRig, serverQuery } from "../api/queries";
import type { Control, Rig } from "../api/types";
import { hour } from "../format";
import { Button, IconButton } from "../ui/Button";
import { Confirm } from "../ui/Dialog";
import { Icon } from "../ui/Icon";
import { ErrorNote } from "../ui/Notes";
import { PeopleOnly } from "../shell/PeopleOnly";

export type ControlState = { by: "nobody" } | ({ by: "me" | "other" } & Control);

/** Who has control of a machine, seen from whoever looks. */
export function useControl(rig: Rig): ControlState {
  const me = useQuery(serverQuery).data?.principal;
  const control = rig.control;
  if (!control) return { by: "nobody" };
  const mine = me !== undefined && control.holder.name === me.name && control.holder.kind === me.kind;
  return { by: mine ? "me" : "other", ...control };
}

/** Says who has control, and takes it or hands it back. */
export function ControlBar({ rig, control }: { rig: Rig; control: ControlState }) {
  const client = useQueryClient();
  const connection = useSyncExternalStore(feed.subscribe, feed.state);
  const [asking, setAsking] = useState(false);
  const take = useMutation({
    mutationFn: (force: boolean) => actions.take(rig.id, force),
    onSuccess: (r) => {
      setAsking(false);
      putRig(client, r);
    },
  });
  const [giving, setGiving] = useState(false);
  const give = useMutation({ mutationFn: () => actions.give(rig.id), onSuccess: (r) => putRig(client, r), onError: () => setGiving(false) });

  // Control that went without this page's doing is worth a word: keys that were meant for the machine no longer reach it alone.
  const [had, setHad] = useState(control.by);
  const [lost, setLost] = useState<string>();
  if (had !== control.by) {
    setHad(control.by);
    setGiving(false);
    if (had === "me" && !giving) setLost(control.by === "other" ? `${control.holder.name} has taken control from you.` : `You no longer have control: ${rig.phase === "parked" ? "the machine was parked" : "it was handed back elsewhere, or the server had not heard of this page for a minute"}.`);
    else setLost(undefined);
  }
  const error = take.error ?? give.error;
  const offline = connection.kind === "lost";
  if (rig.phase === "parked" && control.by === "nobody" && !lost) return <div className="control" hidden />;

  return (
    <div className={`control control-${control.by}`}>
      <div className="control-line">
        <p role="status">
          {control.by === "nobody" && (
            <>
              <Icon name="hand" />
              <span>
                <strong>Nobody has control.</strong> Agents act, and so does whoever types here.
              </span>
            </>
          )}
          {control.by === "me" && (
            <>
              <Icon name="hand" />
              <span>
                <strong>You have control since {hour(control.since)}.</strong>{" "}
                {offline ? "The connection is lost: unless it comes back within a minute, the server hands control back." : "Agents watch; everything else they try is refused."}
              </span>
            </>
          )}
          {control.by === "other" && (
            <>
              <Icon name="eye" />
              <span>
                <strong>
                  <bdi>{control.holder.name}</bdi> has control since {hour(control.since)}.
                </strong>{" "}
                You watch: what you type is not sent.
              </span>
            </>
          )}
        </p>
        <PeopleOnly>
          {control.by === "nobody" && (
            <Button small icon="hand" busy={take.isPending} onClick={() => take.mutate(false)}>
              Take control
            </Button>
          )}
          {control.by === "me" && (
            <Button small look="primary" busy={give.isPending} onClick={() => {
              setGiving(true);
              give.mutate();
            }}>
              Hand back
            </Button>
          )}
          {control.by === "other" && (
            <Button small onClick={() => setAsking(true)}>
              Take it away
            </Button>
          )}
        </PeopleOnly>
      </div>
      {lost && (
        <div className="note note-warn control-note" role="alert">
          <Icon name="alert" />
          <p className="note-text">{lost}</p>
          <IconButton icon="close" label="Dismiss" className="icon-btn-small" onClick={() => setLost(undefined)} />
        </div>
      )}
      {error && !asking && (
        <div className="control-note">
          <ErrorNote error={error} />
        </div>
      )}
      {asking && control.by === "other" && (
        <Confirm
          title={`Take control from ${control.holder.name}?`}
          action="Take it away"
          busy={take.isPending}
          error={take.error}
          onConfirm={() => take.mutate(true)}
          onClose={() => {
            setAsking(false);
            take.reset();
          }}
        >
          <p>What {control.holder.name} does from then on is refused, and every key and button that is held down is released. Only an admin of the workspace may do this.</p>
        </Confirm>
      )}
    </div>
  );
}
