import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { serverQuery } from "../api/queries";

/** What the server lets people do and never agents: an agent that has signed in is not offered it. */
export function PeopleOnly({ children, otherwise }: { children: ReactNode; otherwise?: ReactNode }) {
  const me = useQuery(serverQuery).data?.principal;
  return me?.kind === "agent" ? otherwise : children;
}
