import type { ITheme } from "@xterm/xterm";

const colours = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"] as const;

/** termTheme reads the terminal's colours from the style sheet, where the page's light and dark are. */
export function termTheme(): ITheme {
  const style = getComputedStyle(document.documentElement);
  const get = (name: string) => style.getPropertyValue(`--term-${name}`).trim();
  const theme: ITheme = {
    background: get("bg"),
    foreground: get("fg"),
    cursor: get("cursor"),
    cursorAccent: get("bg"),
    selectionBackground: get("selection"),
  };
  for (const c of colours) {
    theme[c] = get(c);
    theme[`bright${c.charAt(0).toUpperCase()}${c.slice(1)}` as keyof ITheme & `bright${string}`] = get(`bright-${c}`) as never;
  }
  return theme;
}
