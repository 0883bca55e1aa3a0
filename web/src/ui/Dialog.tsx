import { useEffect, useId, useRef, type ReactNode } from "react";
import { Button } from "./Button";
import { ErrorNote } from "./Notes";

interface Props {
  title: string;
  onClose: () => void;
  children: ReactNode;
}

/** A modal dialog. The element itself keeps the focus inside, closes on Escape and gives the focus back. */
export function Dialog({ title, onClose, children }: Props) {
  const ref = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      className="dialog"
      aria-labelledby={heading}
      onCancel={(e) => {
        e.preventDefault();
        onClose();
      }}
      onMouseDown={(e) => {
        if (e.target === ref.current) onClose();
      }}
    >
      <div className="dialog-body">
        <h2 id={heading}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

interface ConfirmProps extends Props {
  action: string;
  look?: "danger" | "primary";
  busy: boolean;
  error: Error | null;
  onConfirm: () => void;
}

/** Asks before something is done that cannot be undone. The focus starts on Cancel. */
export function Confirm({ title, action, look = "danger", busy, error, onConfirm, onClose, children }: ConfirmProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      <div className="dialog-text">{children}</div>
      {error && <ErrorNote error={error} />}
      <div className="dialog-actions">
        <Button onClick={onClose} autoFocus>
          Cancel
        </Button>
        <Button look={look} busy={busy} onClick={onConfirm}>
          {action}
        </Button>
      </div>
    </Dialog>
  );
}
