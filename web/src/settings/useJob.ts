import { useCallback, useSyncExternalStore } from "react";
import { runJob } from "../api/job";
import type { Step } from "../api/types";

export interface JobState {
  /** The step that is being done; undefined when the job does not run. */
  step: Step | undefined;
  error: Error | null;
}

const idle: JobState = { step: undefined, error: null };

/**
 * The jobs that this page has asked for, by path. They are kept here and not in a component, because the server gives a job
 * up when whoever asked for it is gone: going to another view must not end it.
 */
const jobs = new Map<string, JobState>();
const listeners = new Set<() => void>();

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
};

function set(path: string, state: JobState): void {
  jobs.set(path, state);
  for (const listener of listeners) listener();
  if ([...jobs.values()].some((j) => j.step)) window.addEventListener("beforeunload", ask);
  else window.removeEventListener("beforeunload", ask);
}

/** Leaving the page does end the jobs, so the browser asks first. */
const ask = (e: BeforeUnloadEvent) => e.preventDefault();

async function start(path: string, body: unknown, after: () => void): Promise<void> {
  set(path, { step: { text: "Asking the server" }, error: null });
  try {
    await runJob(path, body, (step) => set(path, { step, error: null }));
    set(path, idle);
  } catch (err) {
    set(path, { step: undefined, error: err instanceof Error ? err : new Error(String(err)) });
  } finally {
    after();
  }
}

/** useJob shows a long job and starts it, one at a time. */
export function useJob(path: string, body: unknown, after: () => void): JobState & { run: () => void } {
  const state = useSyncExternalStore(subscribe, () => jobs.get(path) ?? idle);
  const run = useCallback(() => {
    if (!jobs.get(path)?.step) void start(path, body, after);
  }, [path, body, after]);
  return { ...state, run };
}
