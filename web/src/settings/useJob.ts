import { useCallback, useEffect, useRef, useState } from "react";
import { runJob } from "../api/job";
import type { Step } from "../api/types";

export interface Job {
  /** The step that is being done; undefined when no job runs. */
  step: Step | undefined;
  error: Error | null;
  run: () => void;
}

/** useJob runs one long job at a time and shows its steps. Leaving the page does not end the job on the server. */
export function useJob(path: string, body: unknown, after: () => void): Job {
  const [step, setStep] = useState<Step>();
  const [error, setError] = useState<Error | null>(null);
  const running = useRef<AbortController>(undefined);
  useEffect(() => () => running.current?.abort(), []);
  const run = useCallback(() => {
    if (running.current) return;
    const control = new AbortController();
    running.current = control;
    setError(null);
    setStep({ text: "Asking the server" });
    runJob(path, body, setStep, control.signal)
      .catch((err: unknown) => {
        if (!control.signal.aborted) setError(err instanceof Error ? err : new Error(String(err)));
      })
      .finally(() => {
        running.current = undefined;
        setStep(undefined);
        after();
      });
  }, [path, body, after]);
  return { step, error, run };
}
