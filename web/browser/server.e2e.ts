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
interface Answer<T> {
  status: number;
  body: T;
}
/** Asks the server as the page does; with an agent's name, as that agent. */
const send = <T>(method: string, path: string, body?: unknown, as?: string) =>
  page.evaluate(
    async ([m, p, b, a]) => {
      const headers: Record<string, string> = { ...(b !== undefined && { "Content-Type": "application/json" }), ...(a !== undefined && { "Rigs-Agent": a }) };
      const res = await fetch(p, { method: m, headers, ...(b !== undefined && { body: b }) });
      const text = await res.text();
      return { status: res.status, body: (text ? JSON.parse(text) : null) as unknown };
    },
    [method, path, body === undefined ? undefined : JSON.stringify(body), as] as const,
  ) as Promise<Answer<T>>;
const agent = <T>(method: string, path: string, body?: unknown) => send<T>(method, path, body, "build-agent");
/** A second link, which the page itself makes. */
let again = "";
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

  again = (await send<{ url: string }>("POST", "/v1/signin-links")).body.url;
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in to Rigs" }).waitFor();
  expect(wrongs).toEqual([]);
});

it("lets a person decide what an agent asks for, and take control of a real machine", async () => {
  // The link that the page made before it was signed out.
  await page.emulateMedia({ colorScheme: "light" });
  await page.goto(again);
  await page.getByRole("heading", { name: "Spaces" }).waitFor();
  await page.goto(new URL("/w/default/page-test", again).href);
  await page.getByRole("button", { name: "Start the machine" }).click();
  await page.getByText("session main: attached").waitFor({ timeout: FIRST_BOOT });
  const id = (await rigsOf())[0]?.id ?? "";
  await rows().getByText("$").first().waitFor();

  // What an agent does waits for a person where a guardrail says ask; a denial reaches it.
  const dock = page.getByRole("region", { name: "Requests that wait for an answer" });
  const refused = agent("POST", `/v1/rigs/${id}/egress/allow`, { pattern: "denied.example.org" });
  await dock.getByText("build-agent asks to let a machine reach a host").waitFor();
  await dock.getByRole("button", { name: "Deny denied.example.org" }).click();
  expect((await refused).body).toMatchObject({ code: "denied" });

  // It may ask by itself, too; a person sees who asks for what, and answers.
  const asked = await agent<{ id: string }>("POST", `/v1/rigs/${id}/egress/ask`, { pattern: "example.org", reason: "to fetch <b>the test data</b>" });
  expect(asked.status).toBe(201);
  const card = dock.getByRole("article").filter({ hasText: "<b>the test data</b>" });
  await card.getByText("build-agent asks to reach another host").waitFor();
  await shot(page, "server-approval");
  await card.getByLabel("Admit it").selectOption("for 10 min");
  await card.getByRole("button", { name: "Approve example.org" }).click();
  expect((await agent("GET", `/v1/approvals/${asked.body.id}?wait=answer`)).body).toMatchObject({ state: "approved", ttlSeconds: 600 });
  await page.getByRole("listitem").filter({ hasText: "example.org" }).getByText(/ends in (10|9) min/).waitFor();
  expect((await rigsOf())[0]?.egress).toContain("example.org");

  // While a person has control the agent is refused, by name, and may look.
  await page.getByRole("button", { name: "Take control" }).click();
  await page.getByText(/You have control since/).waitFor();
  const run = () => agent<{ code: string | number; detail?: string }>("POST", `/v1/rigs/${id}/exec`, { argv: ["true"] });
  expect((await run()).body).toMatchObject({ code: "controlHeld" });
  expect((await agent("GET", `/v1/rigs/${id}`)).status).toBe(200);
  await typed("echo mine-$((1+1))");
  await rows().getByText("mine-2", { exact: true }).first().waitFor();
  await shot(page, "server-control");
  await page.getByRole("button", { name: "Hand back" }).click();
  await page.getByText("Nobody has control.").waitFor();
  expect((await run()).body).toMatchObject({ code: 0 });

  // Somebody else takes control: this page only watches.
  const token = (await send<{ token: string }>("POST", "/v1/tokens", { name: "bert", kind: "person" })).body.token;
  const bert = (path: string) => fetch(new URL(path, again), { method: "POST", headers: { Authorization: `Bearer ${token}` } });
  expect((await bert(`/v1/rigs/${id}/take`)).status).toBe(200);
  await page.getByText(/bert has control since/).waitFor();
  await page.getByText("session main: attached, view only").waitFor();
  await typed("echo not-sent-$((1+1))");
  expect((await bert(`/v1/rigs/${id}/give`)).status).toBe(200);
  await page.getByText("Nobody has control.").waitFor();
  await typed("echo sent-$((1+1))");
  await rows().getByText("sent-2", { exact: true }).first().waitFor();
  expect(await rows().innerText()).not.toContain("not-sent");

  // All of it stands in the log, which is whole, and outlives the machine.
  await page.getByRole("tab", { name: "Audit" }).click();
  const audit = page.getByRole("list", { name: "Audit log, the last first" });
  await audit.getByRole("listitem").filter({ hasText: "build-agent" }).getByText("refused: somebody else held control (controlHeld)").waitFor();
  await audit.getByRole("listitem").filter({ hasText: "bert" }).getByText("took control").waitFor();
  await audit.getByText(/\d+ (key press|bytes typed)/).first().waitFor();
  await page.getByRole("button", { name: "Verify" }).click();
  await page.getByText(/Intact: \d+ rows checked/).waitFor();
  await shot(page, "server-audit");
  await send("DELETE", `/v1/rigs/${id}`);
  await page.getByRole("button", { name: "What happened in it" }).click();
  await page.getByLabel("A closed machine:").waitFor();
  expect(await page.getByLabel("A closed machine:").inputValue()).toBe(id);
  await audit.getByText("closed the machine").first().waitFor();
  await page.getByRole("tab", { name: "Egress" }).click();
  await page.getByText("Log, as it was kept").waitFor();

  // The settings of the workspace are the real server's.
  await page.goto(new URL("/settings/workspaces/default", again).href);
  const form = page.getByRole("form", { name: "New guardrail" });
  await form.getByLabel("Effect").selectOption("deny");
  await form.getByLabel("Agent").fill("build-agent");
  await form.getByRole("button", { name: "Add the rule" }).click();
  await page.getByRole("list", { name: "Rules for running programs" }).getByText("for agent build-agent").waitFor();
  await page.getByLabel("Host to admit from the start in every terminal").fill("artifacts.example.org");
  await page.keyboard.press("Enter");
  await page.getByRole("list", { name: "Changes for terminal" }).getByText("artifacts.example.org").waitFor();
  await page.getByRole("group", { name: "Mode of page-test" }).getByRole("button", { name: "Read only" }).click();
  await page.locator('[aria-label="Mode of page-test"] [aria-pressed="true"]').getByText("Read only").waitFor();
  await shot(page, "server-workspace");
  expect(wrongs).toEqual([]);

  // A token that is made on the page is good for the role that was chosen, no more.
  await page.goto(new URL("/settings/access", again).href);
  await page.getByLabel("Who bears the token").fill("onlooker");
  await page.getByLabel("Kind").selectOption("person");
  await page.getByLabel("Role").selectOption("viewer");
  await page.getByRole("button", { name: "Make a token" }).click();
  const secret = await page.locator(".secret code").first().innerText();
  const onlooker = (method: string, path: string, body: string | null = null) =>
    fetch(new URL(path, again), { method, body, headers: { Authorization: `Bearer ${secret}`, "Content-Type": "application/json" } });
  expect((await onlooker("GET", "/v1/workspaces/default/rules")).status).toBe(200);
  expect((await onlooker("POST", "/v1/workspaces/default/rules", JSON.stringify({ class: "processSpawn", effect: "allow" }))).status).toBe(403);
});
