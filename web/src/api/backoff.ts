/** How long to wait, in milliseconds, before attempt number n (from 1): doubling from a quarter of a second to ten. */
export function backoff(attempt: number, random: () => number = Math.random): number {
  const base = Math.min(10_000, 250 * 2 ** (Math.max(1, attempt) - 1));
  // Up to a quarter off, so that many tabs do not return in step.
  return Math.round(base * (1 - random() / 4));
}
