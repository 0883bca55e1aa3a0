import { useEffect, useState } from "react";
import { copyText } from "./clipboard";
import { IconButton } from "./Button";

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [state, setState] = useState<"idle" | "done" | "failed">("idle");
  useEffect(() => {
    if (state === "idle") return;
    const timer = setTimeout(() => setState("idle"), 1500);
    return () => clearTimeout(timer);
  }, [state]);
  const said = state === "done" ? "Copied" : state === "failed" ? "The browser did not allow copying" : label;
  return (
    <IconButton
      icon={state === "done" ? "check" : state === "failed" ? "alert" : "copy"}
      label={said}
      className="icon-btn-small"
      onClick={() => void copyText(text).then((ok) => setState(ok ? "done" : "failed"))}
    />
  );
}

/** A command for people to run, with a button that copies it. */
export function Command({ children }: { children: string }) {
  return (
    <span className="command">
      <code>{children}</code>
      <CopyButton text={children} label={`Copy ${children}`} />
    </span>
  );
}
