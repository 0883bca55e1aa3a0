import { useQueryClient } from "@tanstack/react-query";
import { keys } from "../api/queries";
import { Button } from "../ui/Button";
import { Command } from "../ui/Copy";
import { Icon } from "../ui/Icon";

/** Shown to whoever is not signed in. There is no password: a link made on the server is the way in. */
export function SignIn() {
  const client = useQueryClient();
  return (
    <main className="centre">
      <section className="card signin" aria-labelledby="signin-title">
        <Mark />
        <h1 id="signin-title">Sign in to Rigs</h1>
        <p>This page opens with a one-time link that is made on the machine where the server runs. There, in a terminal:</p>
        <ol className="ways">
          <li>
            <Command>rigs up</Command>
            <span>starts the server if it does not run yet, and prints a link</span>
          </li>
          <li>
            <Command>rigs token link</Command>
            <span>prints another link for a server that runs</span>
          </li>
        </ol>
        <p className="muted">
          Open the link in this browser. It works once and for a few minutes; the browser then stays signed in until you sign out. Tokens are for programs:
          this page takes none, so that none can be caught by a page that looks like it.
        </p>
        <Button icon="refresh" onClick={() => void client.invalidateQueries({ queryKey: keys.server })}>
          I have signed in: look again
        </Button>
      </section>
    </main>
  );
}

export function Mark() {
  return (
    <span className="mark" aria-hidden="true">
      <Icon name="terminal" size={26} />
    </span>
  );
}
