import { useQuery } from "@tanstack/react-query";
import { Link, useRouterState } from "@tanstack/react-router";
import { useEffect, useState, useSyncExternalStore } from "react";
import { byAge } from "../api/approvals";
import { approvalsQuery } from "../api/queries";
import { plural } from "../format";
import { IconButton } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { setBadge } from "../ui/useTitle";
import { ApprovalCard } from "./ApprovalCard";
import { useSettled } from "./settled";
import { asksTo, what } from "./words";

/** The most cards that lie over a page once all are asked for; the others are a click further away. */
const SHOWN = 10;

/** How long the cards take no clicks after they have moved, in milliseconds: a click was meant for what was there before. */
const ARMING = 400;

/** Questions that wait, over whatever page is open. They take no focus and can be put aside, but not overlooked. */
export function ApprovalStack() {
  const pending = useQuery(approvalsQuery).data;
  const settled = useSettled();
  const path = useRouterState({ select: (s) => s.location.pathname });
  const [aside, setAside] = useState<readonly string[]>([]);
  const waiting = pending?.length ?? 0;
  useEffect(() => setBadge(waiting), [waiting]);

  const cards = [...settled, ...(pending ?? []).filter((a) => !settled.some((s) => s.id === a.id))].sort(byAge);
  // One whole card, and what else waits in a line: whoever decides looks at the page beneath.
  const [all, setAll] = useState(false);
  if (all && cards.length < 2) setAll(false);
  const shown = cards.slice(0, all ? SHOWN : 1);
  const more = cards.length - shown.length;
  // Where there is little room, a bar that opens to the cards.
  const narrow = useNarrow();
  const [opened, setOpened] = useState(false);
  if (opened && cards.length === 0) setOpened(false);
  const arming = useArming(shown.map((a) => a.id).join());
  // Whatever comes after they were put aside brings them back.
  const put = narrow ? !opened : waiting > 0 && (pending ?? []).every((a) => aside.includes(a.id));
  const newest = pending?.at(-1);
  return (
    <>
      <p className="sr-only" role="status">
        {newest ? `${newest.by.name} asks to ${asksTo(newest)}: ${what(newest)}. F6 leads there.` : ""}
      </p>
      {cards.length > 0 && (waiting > 0 || !put) && path !== "/approvals" && (
        <section className={`dock ${put ? "dock-aside" : ""}`} aria-label="Requests that wait for an answer" data-region="approvals">
          {put ? (
            <button type="button" className="dock-pill" onClick={() => {
              setAside([]);
              setOpened(true);
            }}>
              <Icon name="gate" /> {plural(waiting, "request waits", "requests wait")}
            </button>
          ) : (
            <>
              <header className="dock-head">
                <h2>{waiting === 0 ? "Answered" : plural(waiting, "request waits", "requests wait")}</h2>
                <Link to="/approvals" className="fine">
                  All
                </Link>
                {waiting > 0 && <IconButton icon="minus" label="Put the requests aside" className="icon-btn-small" onClick={() => {
                  setAside((pending ?? []).map((a) => a.id));
                  setOpened(false);
                }} />}
              </header>
              <div className={`dock-cards ${arming ? "arming" : ""}`}>
                {shown.map((a) => (
                  <ApprovalCard key={a.id} approval={a} />
                ))}
              </div>
              {more > 0 && (
                <p className="dock-more">
                  {all ? (
                    <Link to="/approvals">{plural(more, "more request", "more requests")}</Link>
                  ) : (
                    <button type="button" className="link" onClick={() => setAll(true)}>
                      {plural(more, "more request", "more requests")}
                    </button>
                  )}
                </p>
              )}
            </>
          )}
        </section>
      )}
    </>
  );
}

const narrowScreen = () => window.matchMedia("(max-width: 860px)");
const onNarrow = (changed: () => void) => {
  const query = narrowScreen();
  query.addEventListener("change", changed);
  return () => query.removeEventListener("change", changed);
};
const useNarrow = (): boolean => useSyncExternalStore(onNarrow, () => narrowScreen().matches);

/** useArming is true for a moment after the cards have changed. */
function useArming(ids: string): boolean {
  const [armed, setArmed] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setArmed(ids), ARMING);
    return () => clearTimeout(timer);
  }, [ids]);
  return ids !== armed;
}
