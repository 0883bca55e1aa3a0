// What becomes of the questions that wait for an answer, as pure functions.
import type { Approval } from "./types";

/** The most questions that the page keeps: an agent decides how many there are. */
export const MAX_PENDING = 200;

/** mergeApproval puts a question into the list of those that wait, or takes it out once it is answered. The oldest are first: they end first. */
export function mergeApproval(list: readonly Approval[], approval: Approval): Approval[] {
  const rest = list.filter((a) => a.id !== approval.id);
  if (approval.state === "pending") rest.push(approval);
  return rest.sort(byAge).slice(0, MAX_PENDING);
}

export const byAge = (a: Approval, b: Approval): number => a.createdAt.localeCompare(b.createdAt) || a.id.localeCompare(b.id);

/** The seconds until no answer counts as a denial. */
export const secondsLeft = (a: Approval, now: number): number => Math.max(0, Math.ceil((Date.parse(a.expiresAt) - now) / 1000));
