// The page at the widths people have: nothing that is clicked is out of reach, and nothing scrolls into emptiness.
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { launch, open, shot, startTerminal, type Session } from "./harness";

let browser: Browser;
let s: Session;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());
afterEach(async () => {
  await s.end();
  expect(s.wrongs).toEqual([]);
});

const WIDTHS = [360, 390, 600, 768, 1280];

/** Whatever takes clicks, is not in a box that scrolls sideways, and is not wholly within the window. */
const outside = () =>
  s.page.evaluate(() =>
    [...document.querySelectorAll("main button, main a, main select, main input, main [role=tablist], main .xterm-screen")]
      .filter((el) => el.checkVisibility({ visibilityProperty: true }))
      .filter((el) => {
        for (let box = el.parentElement; box && box.tagName !== "MAIN" && !box.classList.contains("machine"); box = box.parentElement)
          if (["auto", "scroll"].includes(getComputedStyle(box).overflowX) && box.getBoundingClientRect().right <= window.innerWidth) return false;
        const { left, right } = el.getBoundingClientRect();
        return left < -8 || right > window.innerWidth + 1;
      })
      .map((el) => `${el.tagName} ${el.className} ${el.textContent.slice(0, 30)}: ${Math.round(el.getBoundingClientRect().left)} to ${Math.round(el.getBoundingClientRect().right)}`),
  );

/** How much higher and wider the document is than the window. */
const beyond = () => s.page.evaluate(() => ({ down: document.documentElement.scrollHeight - window.innerHeight, right: document.documentElement.scrollWidth - window.innerWidth }));

describe("a machine", () => {
  it.each(WIDTHS)("is within reach at %d px", async (width) => {
    s = await open(browser);
    await startTerminal(s);
    await s.page.setViewportSize({ width, height: 800 });
    if (width < 1100) await s.page.goto(`${s.base}/w/default/welcome?panel=none`);
    await s.page.getByText("session main: attached").waitFor();
    expect(await outside()).toEqual([]);
    expect(await beyond()).toEqual({ down: 0, right: 0 });
    await shot(s.page, `space-${width}`);
    await s.page.getByRole("button", { name: "Take control" }).click();
    await s.page.getByText(/You have control since/).waitFor();
    expect(await outside()).toEqual([]);
  });
});

describe("settings", () => {
  it.each(["enclosures", "access", "server", "workspaces/default"])("%s end where their content does", async (path) => {
    s = await open(browser);
    await startTerminal(s);
    for (const width of WIDTHS) {
      await s.page.setViewportSize({ width, height: 700 });
      await s.page.goto(`${s.base}/settings/${path}`);
      await s.page.getByRole("heading", { level: 2 }).first().waitFor();
      await s.page.waitForLoadState("networkidle");
      expect(await beyond(), `${width} px`).toEqual({ down: 0, right: 0 });
      expect(await outside(), `${width} px`).toEqual([]);
    }
    await shot(s.page, `settings-${path.replace("/", "-")}`);
  });
});
