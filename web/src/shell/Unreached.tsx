import { Button } from "../ui/Button";
import { Command } from "../ui/Copy";
import { Mark } from "./SignIn";

/** Shown when the very first question to the server has no answer. */
export function Unreached({ error, onRetry }: { error: Error; onRetry: () => void }) {
  return (
    <main className="centre">
      <section className="card signin" aria-labelledby="unreached-title">
        <Mark />
        <h1 id="unreached-title">The server does not answer</h1>
        <p role="alert">{error.message}</p>
        <ol className="ways">
          <li>
            <Command>rigs up</Command>
            <span>starts the server</span>
          </li>
        </ol>
        <Button look="primary" icon="refresh" onClick={onRetry}>
          Try again
        </Button>
      </section>
    </main>
  );
}
