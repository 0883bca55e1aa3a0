import { useMutation, useQueryClient } from "@tanstack/react-query";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { useEffect, useRef, useState, type ReactNode } from "react";
import { Problem } from "../api/http";
import { actions, putRig } from "../api/queries";
import type { Rig } from "../api/types";
import { segment } from "../api/http";
import { isReport, TerminalStream, type Size, type TerminalState } from "../stream/terminal";
import { Button, IconButton } from "../ui/Button";
import { copyText, readText } from "../ui/clipboard";
import { Confirm } from "../ui/Dialog";
import { ErrorNote } from "../ui/Notes";
import { useScheme } from "../ui/theme";
import { useNow } from "../ui/useNow";
import { useParking } from "./park";
import { termTheme } from "./termTheme";

/** The session in the guest that the page shows. */
const SESSION = "main";

/**
 * The most output that may wait to be drawn, in bytes. A guest can write faster than a browser draws; beyond this the
 * connection is dropped and taken up again, which replays only the last of it.
 */
const BACKLOG = 4 << 20;

const FONT = '"JetBrains Mono Variable", ui-monospace, "DejaVu Sans Mono", monospace';

/** The terminal of a rig that is ready or parked. While it is only watched nothing that is typed is sent. */
export function TerminalView({ rig, watching }: { rig: Rig; watching: boolean }) {
  const host = useRef<HTMLDivElement>(null);
  const term = useRef<Terminal>(undefined);
  const stream = useRef<TerminalStream>(undefined);
  const [state, setState] = useState<TerminalState>({ kind: "detached" });
  const [size, setSize] = useState<Size>();
  const [link, setLink] = useState<string>();
  const [pasteHelp, setPasteHelp] = useState(false);
  const client = useQueryClient();
  const scheme = useScheme();
  const parking = useParking(rig.id);
  const live = rig.phase === "ready" && !parking;
  const id = rig.id;
  // What the handlers below look at, which outlive a change of control.
  const mute = useRef(watching);
  useEffect(() => {
    mute.current = watching;
    const t = term.current;
    if (!t) return;
    t.options.disableStdin = watching || stream.current?.state.kind !== "attached";
    if (watching) return;
    // Whoever had control may have given the terminal another size; what was refused meanwhile may be possible again.
    stream.current?.resize({ cols: t.cols, rows: t.rows });
    stream.current?.retryNow();
  }, [watching]);

  // The terminal itself: it outlives connections, so that what it shows stays readable without one.
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const t = new Terminal({
      fontFamily: FONT,
      fontSize: 13,
      lineHeight: 1.25,
      cursorBlink: !window.matchMedia("(prefers-reduced-motion: reduce)").matches,
      scrollback: 10_000,
      theme: termTheme(),
      minimumContrastRatio: 4.5,
      // A link is the guest's word: it is shown in full before anything opens.
      linkHandler: { activate: (_, uri) => setLink(uri), allowNonHttpProtocols: false },
    });
    const fit = new FitAddon();
    t.loadAddon(fit);
    t.attachCustomKeyEventHandler((e) => {
      if (e.key === "F6") return false; // leaves the terminal; see Shell
      if (e.type === "keydown" && e.ctrlKey && e.shiftKey && !e.altKey && e.code === "KeyC") {
        e.preventDefault();
        if (t.hasSelection()) void copyText(t.getSelection()).then(() => t.focus());
        return false;
      }
      // Ctrl+Shift+V reaches the browser, whose paste event the terminal takes; so do the keys of macOS.
      return !(e.ctrlKey && e.shiftKey && e.code === "KeyV");
    });
    t.onResize((s) => {
      setSize(s);
      // The terminal's size is part of what control is over.
      if (!mute.current) stream.current?.resize(s);
    });
    term.current = t;

    let open = true;
    const shape = () => {
      if (element.clientWidth > 0 && element.clientHeight > 0) fit.fit();
    };
    const observer = new ResizeObserver(shape);
    // The width of a cell is measured once, so the font has to be there first.
    void document.fonts.load(`13px ${FONT}`).finally(() => {
      if (!open) return;
      t.open(element);
      shape();
      setSize({ cols: t.cols, rows: t.rows });
      observer.observe(element);
      t.focus();
    });
    return () => {
      open = false;
      observer.disconnect();
      term.current = undefined;
      t.dispose();
    };
  }, []);

  const opened = size !== undefined;
  useEffect(() => {
    const t = term.current;
    if (!live || !opened || !t) return;
    let waiting = 0; // bytes given to the terminal that it has not drawn
    let replaying = true;
    const scheme = window.location.protocol === "https:" ? "wss:" : "ws:";
    const s = new TerminalStream({
      dial: () => new WebSocket(`${scheme}//${window.location.host}/v1/rigs/${segment(id)}/terminal`),
      session: SESSION,
      size: { cols: t.cols, rows: t.rows },
      onState: (next) => {
        setState(next);
        t.options.disableStdin = mute.current || next.kind !== "attached";
      },
      onOutput: (data, fresh) => {
        if (fresh) {
          t.reset();
          replaying = true;
        }
        waiting += data.length;
        t.write(data, () => {
          waiting -= data.length;
          if (waiting === 0) replaying = false;
        });
        if (waiting > BACKLOG) s.renew();
      },
      explain: async () => {
        try {
          const now = await actions.rig(id);
          putRig(client, now);
          return undefined;
        } catch (err) {
          const final = err instanceof Problem && (err.code === "gone" || err.code === "notFound" || err.code === "forbidden");
          return final ? { code: err.code, detail: err.message } : undefined;
        }
      },
    });
    stream.current = s;
    const encoder = new TextEncoder();
    const typed = t.onData((data) => {
      if (!mute.current && !(replaying && isReport(data))) s.send(encoder.encode(data));
    });
    // Mouse reports of old protocols are bytes, not text.
    const raw = t.onBinary((data) => !mute.current && s.send(Uint8Array.from(data, (c) => c.charCodeAt(0))));
    window.addEventListener("online", s.retryNow);
    return () => {
      window.removeEventListener("online", s.retryNow);
      typed.dispose();
      raw.dispose();
      s.close();
      stream.current = undefined;
      t.options.disableStdin = true;
      setState({ kind: "detached" });
    };
  }, [live, opened, id, client]);

  useEffect(() => {
    if (term.current) term.current.options.theme = termTheme();
  }, [scheme]);

  const paste = async () => {
    const text = await readText();
    if (text === undefined) return setPasteHelp(true);
    term.current?.paste(text);
    term.current?.focus();
  };

  return (
    <div className="term-view" data-region="terminal">
      <div className="terminal-bar">
        <StateLine state={state} parked={rig.phase === "parked"} watching={watching} onRetry={() => stream.current?.retryNow()} />
        <span className="terminal-meta">
          {size && (
            <span className="muted" title="Columns × rows">
              {size.cols}×{size.rows}
            </span>
          )}
          <span className="muted keys">
            <kbd>F6</kbd> leaves the terminal
          </span>
          <IconButton icon="copy" label="Copy the selection (Ctrl+Shift+C)" className="icon-btn-small" onClick={() => {
            const t = term.current;
            if (t?.hasSelection()) void copyText(t.getSelection()).then(() => t.focus());
          }} />
          <IconButton icon="paste" label="Paste (Ctrl+Shift+V)" className="icon-btn-small" disabled={state.kind !== "attached" || watching} onClick={() => void paste()} />
        </span>
      </div>
      <div className="terminal-host" ref={host} />
      {rig.phase === "parked" && <Parked rig={rig} />}
      {(state.kind === "ended" || state.kind === "refused") && live && (
        <Over>
          {state.kind === "ended" ? (
            <>
              <h2>The shell has ended</h2>
              <p className="muted">
                {state.status.signal ? `By signal ${state.status.signal}.` : `With status ${state.status.code}.`} The machine still runs.
              </p>
            </>
          ) : (
            <>
              <h2>The terminal is not attached</h2>
              <ErrorNote error={new Problem(state.problem, 0)} />
            </>
          )}
          <Button look="primary" icon="terminal" autoFocus onClick={() => {
            stream.current?.retryNow();
            term.current?.focus();
          }}>
            {state.kind === "ended" ? "New shell" : "Attach again"}
          </Button>
        </Over>
      )}
      {link !== undefined && (
        <Confirm
          title="Open this link?"
          action="Open in a new tab"
          look="primary"
          busy={false}
          error={null}
          onClose={() => setLink(undefined)}
          onConfirm={() => {
            window.open(link, "_blank", "noopener,noreferrer");
            setLink(undefined);
          }}
        >
          <p>A program in the machine wrote it. It opens in your own browser, outside the machine:</p>
          <p className="long-text">
            <code>{link}</code>
          </p>
        </Confirm>
      )}
      {pasteHelp && (
        <Confirm title="The browser did not give the clipboard" action="Back to the terminal" look="primary" busy={false} error={null} onClose={() => setPasteHelp(false)} onConfirm={() => {
          setPasteHelp(false);
          requestAnimationFrame(() => term.current?.focus());
        }}>
          <p>
            Click into the terminal and press <kbd>Ctrl</kbd>+<kbd>Shift</kbd>+<kbd>V</kbd> (on a Mac <kbd>⌘</kbd>+<kbd>V</kbd>).
          </p>
        </Confirm>
      )}
    </div>
  );
}

const Over = ({ children }: { children: ReactNode }) => (
  <div className="over">
    <section className="card over-card">{children}</section>
  </div>
);

function Parked({ rig }: { rig: Rig }) {
  const client = useQueryClient();
  const wake = useMutation({ mutationFn: () => actions.wake(rig.id), onSuccess: (r) => putRig(client, r) });
  return (
    <Over>
      <h2>The machine is parked</h2>
      <p className="muted">Its processors stand still; its memory and everything that ran is kept.</p>
      {wake.error && <ErrorNote error={wake.error} />}
      <Button look="primary" icon="play" busy={wake.isPending} onClick={() => wake.mutate()}>
        Wake the machine
      </Button>
    </Over>
  );
}

interface StateProps {
  state: TerminalState;
  parked: boolean;
  watching: boolean;
  onRetry: () => void;
}

function StateLine({ state, parked, watching, onRetry }: StateProps) {
  const [tone, text] = parked
    ? (["warn", "parked"] as const)
    : ({
        detached: ["mute", "not attached"],
        connecting: ["info", "attaching…"],
        attached: ["good", "attached"],
        waiting: ["warn", "connection lost"],
        ended: ["mute", "shell ended"],
        refused: ["bad", "not attached"],
      } as const)[state.kind];
  return (
    <span className="terminal-state">
      <span role="status" className="state-words">
        <span className={`dot tone-${tone}`} aria-hidden="true" />
        session {SESSION}: {text}
        {watching && state.kind === "attached" && ", view only"}
      </span>
      {state.kind === "waiting" && !parked && (
        <>
          <RetryIn at={state.retryAt} />
          <Button small onClick={onRetry}>
            Try now
          </Button>
        </>
      )}
    </span>
  );
}

function RetryIn({ at }: { at: number }) {
  const seconds = Math.ceil((at - useNow(500)) / 1000);
  return <span className="muted">{seconds > 0 ? `again in ${seconds} s` : "trying…"}</span>;
}
