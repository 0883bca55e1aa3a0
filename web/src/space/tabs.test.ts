import { expect, it } from "vitest";
import type { Rig } from "../api/types";
import { isTab, rigsOf, surfaceTabs } from "./tabs";

const rig = (id: string, phase: Rig["phase"], more: Partial<Rig> = {}): Rig =>
  ({ id, phase, workspace: "default", space: "s", surface: "terminal", openedAt: `2026-01-0${id}T00:00:00Z`, ...more }) as Rig;

it("shows a live machine before a newer one that failed", () => {
  const list = [rig("1", "ready"), rig("2", "failed"), rig("3", "parked"), rig("4", "ready", { space: "other" }), rig("5", "ready", { surface: "browser", engine: "chromium" })];
  expect(rigsOf(list, "default", "s", surfaceTabs[0]).map((r) => r.id)).toEqual(["3", "1", "2"]);
  expect(rigsOf(list, "default", "s", surfaceTabs[1]).map((r) => r.id)).toEqual(["5"]);
  expect(rigsOf(list, "default", "s", surfaceTabs[2])).toEqual([]);
});

it("knows its tabs only", () => {
  expect(isTab("webkit")).toBe(true);
  expect(isTab("mac")).toBe(false);
  expect(isTab(["terminal"])).toBe(false);
});
