import { useSyncExternalStore } from "react";
import { feed } from "../api/client";
import { Button } from "../ui/Button";
import { useNow } from "../ui/useNow";

/** Says that what the page shows may be old, and what is done about it. */
export function ConnectionBanner() {
  const state = useSyncExternalStore(feed.subscribe, feed.state);
  return (
    <div role="status">
      {state.kind === "lost" && (
        <div className="banner">
          <span className="dot tone-warn" aria-hidden="true" />
          <p>
            <strong>Connection to the server lost.</strong> What you see may be out of date. <Wait until={state.retryAt} />
          </p>
          <Button small onClick={feed.retryNow}>
            Try now
          </Button>
        </div>
      )}
    </div>
  );
}

function Wait({ until }: { until: number }) {
  const seconds = Math.ceil((until - useNow(500)) / 1000);
  // Not read out again every second.
  return <span aria-hidden="true">{seconds > 0 ? `Trying again in ${seconds} s.` : "Trying again…"}</span>;
}
