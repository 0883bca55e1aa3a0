import { useSyncExternalStore } from "react";
import { IconButton } from "../ui/Button";
import { Icon } from "../ui/Icon";

interface Toast {
  id: number;
  text: string;
}

let toasts: readonly Toast[] = [];
let last = 0;
const listeners = new Set<() => void>();
const set = (next: readonly Toast[]) => {
  toasts = next;
  for (const listener of listeners) listener();
};

/** complain shows what failed where the thing that was clicked has no room of its own for it. It stays until dismissed. */
export function complain(err: Error): void {
  set([...toasts.filter((t) => t.text !== err.message), { id: ++last, text: err.message }].slice(-4));
}

export function Toasts() {
  const list = useSyncExternalStore(
    (l) => {
      listeners.add(l);
      return () => listeners.delete(l);
    },
    () => toasts,
  );
  return (
    <div className="toasts" role="alert">
      {list.map((t) => (
        <div key={t.id} className="toast">
          <Icon name="alert" />
          <p>{t.text}</p>
          <IconButton icon="close" label="Dismiss" onClick={() => set(toasts.filter((o) => o.id !== t.id))} />
        </div>
      ))}
    </div>
  );
}
