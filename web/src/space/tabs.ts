import type { Engine, Rig, SurfaceName } from "../api/types";
import type { IconName } from "../ui/Icon";

export interface SurfaceTab {
  name: "terminal" | "chromium" | "firefox" | "webkit" | "desktop" | "phone";
  label: string;
  icon: IconName;
  surface: SurfaceName;
  engine?: Engine;
}

/** The tabs of a space, in their order. */
export const surfaceTabs = [
  { name: "terminal", label: "Terminal", icon: "terminal", surface: "terminal" },
  { name: "chromium", label: "Chromium", icon: "browser", surface: "browser", engine: "chromium" },
  { name: "firefox", label: "Firefox", icon: "browser", surface: "browser", engine: "firefox" },
  { name: "webkit", label: "WebKit", icon: "browser", surface: "browser", engine: "webkit" },
  { name: "desktop", label: "Desktop", icon: "desktop", surface: "desktop" },
  { name: "phone", label: "Phone", icon: "phone", surface: "phone" },
] as const satisfies readonly SurfaceTab[];

export type TabName = SurfaceTab["name"];

export const isTab = (value: unknown): value is TabName => surfaceTabs.some((t) => t.name === value);

/** rigsOf picks a space's machines of one tab: live ones first, then the newest. A space may have several (rigs open --new). */
export function rigsOf(rigs: readonly Rig[], workspace: string, space: string, tab: SurfaceTab): Rig[] {
  const rank = (r: Rig) => (r.phase === "ready" || r.phase === "provisioning" || r.phase === "parked" ? 0 : 1);
  return rigs
    .filter((r) => r.workspace === workspace && r.space === space && r.surface === tab.surface && r.engine === tab.engine)
    .sort((a, b) => rank(a) - rank(b) || b.openedAt.localeCompare(a.openedAt));
}

/** tabOf is the tab that shows a machine. */
export const tabOf = (rig: Rig): TabName =>
  surfaceTabs.find((t: SurfaceTab) => t.surface === rig.surface && t.engine === rig.engine)?.name ?? "terminal";

/** pastOf picks the closed machines of a tab, the last closed first. */
export const pastOf = (closed: readonly Rig[], tab: SurfaceTab): Rig[] =>
  closed.filter((r) => r.surface === tab.surface && r.engine === tab.engine).sort((a, b) => (b.closedAt ?? "").localeCompare(a.closedAt ?? ""));
