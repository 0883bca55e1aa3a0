import { useSyncExternalStore } from "react";
import type { Approval } from "../api/types";

/** How long what became of a question stays in its place, in milliseconds: nothing moves under a pointer that is about to click. */
const LINGER = 4000;

let list: readonly Approval[] = [];
const listeners = new Set<() => void>();
const set = (next: readonly Approval[]) => {
  list = next;
  for (const listener of listeners) listener();
};

/** settle keeps a question that has just been answered, or has ended, for a few seconds. */
export function settle(approval: Approval): void {
  if (list.some((a) => a.id === approval.id)) return;
  set([...list, approval]);
  setTimeout(() => set(list.filter((a) => a.id !== approval.id)), LINGER);
}

export const useSettled = (): readonly Approval[] =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
    () => list,
  );
