import type { ButtonHTMLAttributes, ReactNode } from "react";
import { Icon, type IconName } from "./Icon";

interface Props extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: "plain" | "primary" | "danger" | "quiet";
  icon?: IconName;
  busy?: boolean;
  small?: boolean;
  children: ReactNode;
}

/** A button. While busy it does nothing but keeps its place and the focus. */
export function Button({ look = "plain", icon, busy = false, small = false, children, onClick, ...rest }: Props) {
  return (
    <button
      type="button"
      {...rest}
      className={`btn btn-${look}${small ? " btn-small" : ""}`}
      aria-disabled={busy || rest.disabled || undefined}
      aria-busy={busy || undefined}
      onClick={(e) => {
        if (busy) e.preventDefault();
        else onClick?.(e);
      }}
    >
      {busy ? <span className="spinner" aria-hidden="true" /> : icon ? <Icon name={icon} size={small ? 14 : 16} /> : null}
      {children}
    </button>
  );
}

/** A button that shows only an icon; its label is read out and shown as a tooltip. */
export function IconButton({ icon, label, className = "", ...rest }: { icon: IconName; label: string } & Omit<ButtonHTMLAttributes<HTMLButtonElement>, "children">) {
  return (
    <button type="button" {...rest} className={`icon-btn ${className}`} aria-label={label} title={label}>
      <Icon name={icon} />
    </button>
  );
}
