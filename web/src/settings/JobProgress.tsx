import type { Step } from "../api/types";
import { amount } from "../format";
import { Progress } from "../ui/Notes";

export function JobProgress({ step }: { step: Step }) {
  return (
    <div className="job">
      <p>
        <span role="status">{step.text}</span>
        {(step.done !== undefined || step.total !== undefined) && <span className="muted">{amount(step.done ?? 0, step.total ?? 0, step.unit)}</span>}
      </p>
      <Progress label={step.text} done={step.done} total={step.total} />
    </div>
  );
}
