import type { ReactNode } from "react";
import { Problem } from "../api/http";
import { Button } from "./Button";
import { Icon, type IconName } from "./Icon";

/** What failed, with the server's own words, and a way on where there is one. */
export function ErrorNote({ error, onRetry }: { error: Error; onRetry?: () => void }) {
  return (
    <div className="note note-error" role="alert">
      <Icon name="alert" />
      <div className="note-text">
        <p>{error.message}</p>
        {error instanceof Problem && <code className="code-chip">{error.code}</code>}
      </div>
      {onRetry && (
        <Button small icon="refresh" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

/** A place that holds nothing yet, and what to do about it. */
export function Empty({ icon, title, children, action }: { icon?: IconName; title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <div className="empty">
      {icon && (
        <span className="empty-icon">
          <Icon name={icon} size={28} />
        </span>
      )}
      <h2>{title}</h2>
      {children && <div className="empty-text">{children}</div>}
      {action && <div className="empty-action">{action}</div>}
    </div>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <div className="loading" role="status">
      <span className="spinner" aria-hidden="true" />
      {what}
    </div>
  );
}

export type Tone = "good" | "warn" | "bad" | "info" | "mute";

export function Pill({ tone, children }: { tone: Tone; children: ReactNode }) {
  return <span className={`pill tone-${tone}`}>{children}</span>;
}

export function Progress({ label, done, total }: { label: string; done?: number | undefined; total?: number | undefined }) {
  const known = total !== undefined && total > 0;
  const part = known ? Math.min(1, Math.max(0, (done ?? 0) / total)) : 0;
  return (
    <div
      className={known ? "progress" : "progress progress-unknown"}
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      {...(known ? { "aria-valuenow": Math.round(part * 100) } : {})}
    >
      <span style={known ? { width: `${part * 100}%` } : undefined} />
    </div>
  );
}
