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
            <Command>rigs signin</Command>
            <span>prints the link</span>
          </li>
        </ol>
        <p className="muted">From a browser that is signed in already, make one under Settings → Access.</p>
        <p className="muted">
          Open the link in this browser. It works once, and not for long; the browser then stays signed in until you sign out. Tokens (<code>rigs token</code>)
          are for programs: this page takes none, so that nobody gets used to typing one into a page.
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
