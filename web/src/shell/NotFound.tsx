import { Link } from "@tanstack/react-router";
import { Empty } from "../ui/Notes";

export function NotFound() {
  return (
    <Empty title="There is no such page" action={<Link to="/" className="btn btn-plain">All spaces</Link>}>
      The address may be of an older version, or mistyped.
    </Empty>
  );
}
