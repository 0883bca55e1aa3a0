// The page against a real server and a real machine. test/web starts the server and runs this file with the address of a
// sign-in link in RIGS_E2E_LINK; by hand:
//
//   RIGS_E2E_LINK='http://127.0.0.1:7878/signin?code=…' npx vitest run --project server
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { launch, shot } from "./harness";

const link = process.env["RIGS_E2E_LINK"] ?? "";
/** A first machine makes the template, which takes a while where everything is emulated. */
const FIRST_BOOT = 400_000;

let browser: Browser;
let context: BrowserContext;
let page: Page;
const wrongs: string[] = [];
beforeAll(async () => {
  if (!link) throw new Error("RIGS_E2E_LINK is not set: run go test ./test/web");
  browser = await launch();
  context = await browser.newContext({ viewport: { width: 1360, height: 850 }, colorScheme: "light" });
  context.setDefaultTimeout(60_000);
  page = await context.newPage();
  page.on("pageerror", (err) => wrongs.push(err.message));
  page.on("console", (m) => {
    if (m.type() === "error" && !m.text().startsWith("Failed to load resource")) wrongs.push(m.text());
  });
  page.on("request", (r) => {
    if (new URL(r.url()).host !== new URL(link).host) wrongs.push(`request to ${r.url()}`);
  });
});
afterAll(() => browser?.close());

const rows = () => page.locator(".xterm-rows");
const typed = async (line: string) => {
  await page.locator(".xterm-screen").click();
  await page.keyboard.type(`${line}\n`);
};
const api = <T>(path: string) => page.evaluate(async (p) => (await (await fetch(p)).json()) as unknown, path) as Promise<T>;
interface Event {
  seq: number;
  host?: string;
  reason: string;
  verdict: string;
}
const rigsOf = async () => (await api<{ rigs: { id: string; phase: string; egress: string[] }[] }>("/v1/rigs?workspace=default&space=page-test")).rigs;
const log = async (id: string) => (await api<{ events: Event[] }>(`/v1/rigs/${id}/egress/log`)).events.filter((e) => e.host === "example.com");

it("does the main job on a real machine", async () => {
  // Signed in by the link, once.
  await page.goto(link);
  await page.getByRole("heading", { name: "Spaces" }).waitFor();
  expect(page.url()).not.toContain("code=");
  const other = await browser.newContext();
  const second = await other.newPage();
  expect((await second.goto(link))?.status()).toBeGreaterThanOrEqual(400);
  await second.goto(new URL("/", link).href);
  await second.getByRole("heading", { name: "Sign in to Rigs" }).waitFor();
  await other.close();

  // A space, and no machine in it before somebody asks for one.
  await page.getByRole("button", { name: "New space", exact: true }).click();
  await page.getByPlaceholder(/space name/).fill("page-test");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Start the machine" }).waitFor();
  expect(await rigsOf()).toEqual([]);

  // Progress in the server's words, then the terminal.
  await page.evaluate(() => {
    const seen = new Set<string>();
    (window as unknown as { steps: Set<string> }).steps = seen;
    new MutationObserver(() => {
      const step = document.querySelector(".boot-step")?.textContent;
      if (step) seen.add(step);
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
  });
  await page.getByRole("button", { name: "Start the machine" }).click();
  const outcome = await Promise.race([
    page.getByText("session main: attached").waitFor({ timeout: FIRST_BOOT }).then(() => "attached"),
    page.locator(".failed-text").waitFor({ timeout: FIRST_BOOT }).then(() => page.locator(".failed-text").innerText()),
  ]);
  expect(outcome).toBe("attached");
  const steps = await page.evaluate(() => [...(window as unknown as { steps: Set<string> }).steps]);
  expect(steps.length).toBeGreaterThan(0);
  const rig = (await rigsOf())[0];
  expect(rig?.phase).toBe("ready");
  const id = rig?.id ?? "";

  // Keys in, output out; the same screen after a reload.
  await rows().getByText("$").first().waitFor();
  await typed("uname -sr; echo marker-$((40+2))");
  await rows().getByText("marker-42", { exact: true }).first().waitFor();
  await shot(page, "server-light");
  await page.reload();
  await page.getByText("session main: attached").waitFor();
  await rows().getByText("marker-42", { exact: true }).first().waitFor();
  await typed("stty size");
  const [cols, lines] = (await page.getByTitle("Columns × rows").innerText()).split("×");
  await rows().getByText(`${lines} ${cols}`, { exact: true }).first().waitFor();
  expect((await rigsOf()).map((r) => r.id)).toEqual([id]);

  // A refused connection is in the log at once; one click admits the host.
  await typed("curl -sS -m 30 https://example.com | head -c 20; echo first-done");
  const line = page.getByRole("listitem").filter({ hasText: "example.com" }).filter({ hasText: "not on the list" }).last();
  await line.waitFor();
  await shot(page, "server-denied");
  await line.getByRole("button", { name: "Admit example.com" }).click();
  await line.getByText("admitted").waitFor();
  expect((await rigsOf())[0]?.egress).toContain("example.com");
  const before = (await log(id)).at(-1)?.seq ?? 0;
  await typed("curl -sS -m 30 https://example.com | head -c 20; echo second-done");
  // Whether the world outside answers is not the page's affair; the gate must not refuse it for the list's sake any more.
  await expect.poll(async () => (await log(id)).some((e) => e.seq > before && e.reason !== "notAdmitted"), { timeout: 60_000 }).toBe(true);

  // Dark, too.
  await page.emulateMedia({ colorScheme: "dark" });
  await page.getByRole("tab", { name: "Details" }).click();
  await page.getByText("Reference").waitFor();
  await shot(page, "server-dark");

  // Parked and woken with its screen, closed for good.
  await page.getByRole("button", { name: "Park", exact: true }).click();
  await page.getByRole("heading", { name: "The machine is parked" }).waitFor();
  await page.getByRole("button", { name: "Wake the machine" }).click();
  await page.getByText("session main: attached").waitFor();
  await typed("echo awake-$((1+1))");
  await rows().getByText("awake-2", { exact: true }).first().waitFor();
  await page.getByRole("button", { name: "Close the machine" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Close the machine" }).click();
  await page.getByText(/was closed .*: somebody closed it/).waitFor();
  expect(await rigsOf()).toEqual([]);

  await page.goto(new URL("/settings/enclosures", link).href);
  await page.getByRole("row").filter({ hasText: "terminal" }).first().getByText("ready").waitFor({ timeout: 120_000 });
  await shot(page, "server-enclosures");

  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in to Rigs" }).waitFor();
  expect(wrongs).toEqual([]);
});
