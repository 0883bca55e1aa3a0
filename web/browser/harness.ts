// What the browser tests share: Debian's Chromium, a stand-in server of their own, and the rules that hold on every page.
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { chromium, type Browser, type BrowserContext, type BrowserContextOptions, type Page } from "playwright-core";
import { start, type FakeServer } from "../dev/fake-server.mjs";

const candidates = [process.env["RIGS_TEST_CHROMIUM"], "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome", "/snap/bin/chromium"];

export async function launch(): Promise<Browser> {
  const executablePath = candidates.find((c) => c !== undefined && existsSync(c));
  if (!executablePath) throw new Error("no Chromium is installed: apt-get install chromium, or set RIGS_TEST_CHROMIUM");
  // Chromium refuses its sandbox to root.
  return chromium.launch({ executablePath, args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });
}

export interface Session {
  server: FakeServer;
  base: string;
  context: BrowserContext;
  page: Page;
  /** What should never happen on a page, as it happened. */
  wrongs: string[];
  post: (path: string, body?: unknown) => Promise<Record<string, unknown>>;
  end: () => Promise<void>;
}

/** open starts a server and a page, and watches for errors, violations of the policy and requests to elsewhere. */
export async function open(browser: Browser, options: BrowserContextOptions & { signedOut?: boolean } = {}): Promise<Session> {
  const { signedOut, ...contextOptions } = options;
  const server = await start({ open: signedOut !== true });
  server.world["stepMS"] = 30;
  const base = `http://127.0.0.1:${server.port}`;
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, permissions: ["clipboard-read", "clipboard-write"], ...contextOptions });
  context.setDefaultTimeout(15_000);
  const wrongs: string[] = [];
  const page = await context.newPage();
  page.on("pageerror", (err) => wrongs.push(`error: ${err.message}`));
  page.on("console", (m) => {
    // A failed request is the business of the tests that cause one; everything else on the console is a fault.
    if (m.type() === "error" && !m.text().startsWith("Failed to load resource") && !m.text().includes("WebSocket connection to")) wrongs.push(`console: ${m.text()}`);
  });
  page.on("request", (r) => {
    if (!r.url().startsWith(base)) wrongs.push(`request to ${r.url()}`);
  });
  return {
    server,
    base,
    context,
    page,
    wrongs,
    post: async (path, body = {}) => (await fetch(base + path, { method: "POST", body: JSON.stringify(body) })).json() as Promise<Record<string, unknown>>,
    end: async () => {
      await context.close();
      await server.stop();
    },
  };
}

/** The text that the terminal shows. */
export const screen = (page: Page): Promise<string> => page.locator(".xterm-rows").innerText();

/** startTerminal opens a space and starts its machine. */
export async function startTerminal(s: Session, space = "welcome"): Promise<void> {
  await s.page.goto(`${s.base}/w/default/${space}`);
  await s.page.getByRole("button", { name: "Start the machine" }).click();
  await attached(s.page);
}

export async function attached(page: Page): Promise<void> {
  await page.getByText("session main: attached").waitFor();
  await page.locator(".xterm-rows").getByText("$").first().waitFor();
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** violations runs axe over the page: WCAG 2.2 A and AA. */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe);
  return page.evaluate(async () => {
    interface Axe {
      run: (context: unknown, options: unknown) => Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }>;
    }
    const found = await (window as unknown as { axe: Axe }).axe.run(
      // The terminal's own DOM is xterm.js's: its rows are hidden from readers of screens, its input is labelled.
      { exclude: [".xterm"] },
      { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] },
    );
    return found.violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.html}: ${n.failureSummary}`));
  });
}

/** shot keeps a picture for people to look at; nothing compares it. */
export async function shot(page: Page, name: string): Promise<void> {
  const folder = fileURLToPath(new URL("../test-results/", import.meta.url));
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: `${folder}${name}.png` });
}
