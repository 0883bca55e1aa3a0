import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const KEY = "rigs.theme";
const listeners = new Set<() => void>();
const dark = window.matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => applyTheme());

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system"; // storage may be forbidden; the choice then lasts as long as the page
  }
}

let theme = stored();

/** Which of the two the page shows now. */
export const scheme = (): "light" | "dark" => (theme === "system" ? (dark.matches ? "dark" : "light") : theme);

export function applyTheme(): void {
  document.documentElement.dataset["theme"] = scheme();
  for (const listener of listeners) listener();
}

export function setTheme(next: Theme): void {
  theme = next;
  try {
    if (next === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, next);
  } catch {
    // As above.
  }
  applyTheme();
}

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
};

export const useTheme = (): Theme => useSyncExternalStore(subscribe, () => theme);
export const useScheme = (): "light" | "dark" => useSyncExternalStore(subscribe, scheme);
