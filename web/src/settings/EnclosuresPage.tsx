import { useTitle } from "../ui/useTitle";
import { Capabilities } from "./Capabilities";
import { Images } from "./Images";
import { Machines } from "./Machines";
import { Templates } from "./Templates";

export function EnclosuresPage() {
  useTitle("Enclosures · Settings");
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h2>Enclosures</h2>
          <p className="muted">The boundary around each machine: what this host can boot, and from what.</p>
        </div>
      </header>
      <Capabilities />
      <Machines />
      <Images />
      <Templates />
    </div>
  );
}
