import { useRef, type KeyboardEvent, type ReactNode } from "react";

export interface TabItem<T extends string> {
  name: T;
  label: ReactNode;
  /** Read out instead of the label, where the label says something only by colour or place. */
  spoken?: string;
}

interface Props<T extends string> {
  label: string;
  id: string;
  tabs: readonly TabItem<T>[];
  current: T;
  onSelect: (name: T) => void;
  className?: string;
}

/** A row of tabs after the ARIA pattern: one stop for Tab, arrow keys, Home and End between them. */
export function Tabs<T extends string>({ label, id, tabs, current, onSelect, className = "" }: Props<T>) {
  const list = useRef<HTMLDivElement>(null);
  const onKeyDown = (e: KeyboardEvent) => {
    const at = tabs.findIndex((t) => t.name === current);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    const next = tabs[(to + tabs.length) % tabs.length];
    if (!next) return;
    onSelect(next.name);
    list.current?.querySelector<HTMLElement>(`[data-tab="${next.name}"]`)?.focus();
  };
  return (
    <div ref={list} className={`tabs ${className}`} role="tablist" aria-label={label} onKeyDown={onKeyDown}>
      {tabs.map((t) => (
        <button
          key={t.name}
          type="button"
          role="tab"
          id={`${id}-tab-${t.name}`}
          data-tab={t.name}
          className="tab"
          aria-selected={t.name === current}
          aria-controls={`${id}-panel`}
          aria-label={t.spoken}
          tabIndex={t.name === current ? 0 : -1}
          onClick={() => onSelect(t.name)}
        >
          {t.label}
        </button>
      ))}
    </div>
  );
}
