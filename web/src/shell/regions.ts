/**
 * cycleRegions moves the focus to the next part of the page (F6) or the one before it (Shift+F6). It is the way out of the
 * terminal, which takes Tab and Escape for itself.
 */
export function cycleRegions(back: boolean): void {
  const regions = [...document.querySelectorAll<HTMLElement>("[data-region]")].filter((r) => r.checkVisibility());
  if (regions.length === 0) return;
  // The innermost region that holds the focus: the content holds the tabs, the terminal and the panel.
  const at = regions.reduce((found, r, i) => (r.contains(document.activeElement) ? i : found), -1);
  for (let step = 1; step <= regions.length; step++) {
    const next = regions[(at + (back ? -step : step) + 2 * regions.length) % regions.length];
    if (next && focusIn(next)) return;
  }
}

function focusIn(region: HTMLElement): boolean {
  // In the order of preference, not of the document.
  const wanted = [".xterm-helper-textarea", "[role='tab'][aria-selected='true']", "[aria-current='page']", "a[href]", "button:not(:disabled)", "input"];
  const inside = wanted.map((w) => region.querySelector<HTMLElement>(w)).find((e) => e?.checkVisibility());
  const target = inside ?? region;
  target.focus();
  return document.activeElement === target;
}
