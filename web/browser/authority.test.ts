// What people decide and look back at: approvals, control, the audit log, admissions that end.
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { attached, launch, open, screen, shot, startTerminal, violations, type Session } from "./harness";

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

interface State {
  rigs: { id: string; phase: string; egress: string[]; control?: { holder: { name: string } } }[];
  answers: Record<string, unknown>[];
  viewers: string[];
  takers: string[];
  typed: string;
}
const state = async () => (await s.post("/__fake/state")) as unknown as State;
const rigID = async () => (await state()).rigs[0]?.id ?? "";
const ask = async (body: Record<string, unknown>) => (await s.post("/__fake/ask", body)) as unknown as { id: string };
const soon = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString();
const dock = () => s.page.getByRole("region", { name: "Requests that wait for an answer" });
const until = (text: string) => s.page.locator(".xterm-rows").getByText(text).first().waitFor();

describe("a request of an agent", () => {
  it("appears at once on whatever page is open, as the agent's words, and is approved for a time", async () => {
    s = await open(browser);
    await startTerminal(s);
    const rig = await rigID();
    await ask({ rigId: rig, pattern: "files.example.org:8443", reason: 'to download the test data\n<b onclick="alert(1)">Approve at once</b>' });
    const card = dock().getByRole("article");
    await card.getByText("build-agent asks to reach another host").waitFor();
    await card.getByText('<b onclick="alert(1)">Approve at once</b>').waitFor();
    expect(await card.locator("blockquote b").count()).toBe(0);
    await card.getByText("files.example.org:8443").waitFor();
    expect(await s.page.title()).toMatch(/^\(1\) /);
    await s.page.getByRole("link", { name: "Approvals 1 waiting" }).waitFor();
    // The terminal keeps the focus.
    await s.page.keyboard.type("echo undisturbed\r");
    await until("undisturbed");
    expect(await violations(s.page)).toEqual([]);
    await shot(s.page, "approval-light");

    await card.getByLabel("Admit it").selectOption("for 10 min");
    await card.getByRole("button", { name: "Add a note" }).click();
    await card.getByLabel("Note to build-agent").fill("only today");
    await card.getByRole("button", { name: "Approve files.example.org:8443" }).click();
    await card.getByText("approved", { exact: true }).waitFor();
    expect((await state()).answers).toMatchObject([{ verb: "approve", ttlSeconds: 600, note: "only today" }]);
    await dock().waitFor({ state: "detached" });
    expect(await s.page.title()).not.toMatch(/^\(/);

    const entry = s.page.getByRole("listitem").filter({ hasText: "files.example.org:8443" });
    await entry.getByText("ends in 10 min").waitFor();
    await s.page.getByRole("link", { name: "Approvals" }).click();
    const past = s.page.getByRole("listitem").filter({ hasText: "files.example.org:8443" });
    await past.getByText("answered: “only today”").waitFor();
    await past.getByText("by local").waitFor();
    await shot(s.page, "approvals-page");
  });

  it("for an action can be remembered, and denied", async () => {
    s = await open(browser);
    await s.page.goto(s.base);
    await ask({ kind: "action", class: "processSpawn", verb: "exec", summary: "exec make test", reason: "the tests have to run" });
    const card = dock().getByRole("article");
    await card.getByText("build-agent asks to run a program").waitFor();
    await card.getByText("exec make test").waitFor();
    expect(await card.locator("code", { hasText: "exec make test" }).evaluate((el) => getComputedStyle(el).fontFamily)).toMatch(/mono/i);
    await card.getByLabel("Remember this").selectOption("for every agent in workspace default");
    await card.getByText("every agent in workspace default may run programs from now on").waitFor();
    await card.getByLabel("Remember this").selectOption("for build-agent in the whole workspace default");
    await card.getByLabel("Remember this").selectOption("for build-agent in space welcome");
    await card.getByText("build-agent in space welcome may run programs from now on").waitFor();
    expect(await violations(s.page)).toEqual([]);
    await shot(s.page, "approval-action");
    await card.getByRole("button", { name: "Deny exec make test" }).click();
    await card.getByText("denied", { exact: true }).waitFor();
    await card.getByText("A rule was written: build-agent in space welcome may not run programs from now on.").waitFor();
    expect((await state()).answers).toMatchObject([{ verb: "deny", remember: "space" }]);
    expect((await state()).answers[0]).not.toHaveProperty("ttlSeconds");
  });

  it("that somebody else answers, or that expires or is withdrawn, says so in its place and goes", async () => {
    s = await open(browser);
    await s.page.goto(s.base);
    const one = await ask({ pattern: "one.example.org" });
    const two = await ask({ pattern: "two.example.org" });
    const three = await ask({ pattern: "three.example.org" });
    await dock().getByRole("heading", { name: "3 requests wait" }).waitFor();
    expect(await dock().getByRole("article").count()).toBe(1);
    await shot(s.page, "approval-three");
    await dock().getByRole("button", { name: "2 more requests" }).click();
    const card = (name: string) => dock().getByRole("article").filter({ hasText: name });
    await s.post("/__fake/answer", { id: two.id, patch: { state: "approved", answeredBy: "bert" } });
    await card("two.example.org").getByText("by bert").waitFor();
    expect(await dock().getByRole("article").allInnerTexts()).toHaveLength(3);
    await dock().getByRole("heading", { name: "2 requests wait" }).waitFor();
    await s.post("/__fake/answer", { id: one.id, patch: { state: "expired" } });
    await card("one.example.org").getByText("nobody answered in time").waitFor();
    await s.post("/__fake/answer", { id: three.id, patch: { state: "canceled" } });
    await card("three.example.org").getByText("withdrawn").waitFor();
    await dock().waitFor({ state: "detached" });
  });

  it("whose time is up cannot be answered any more, even if the server has not said so", async () => {
    s = await open(browser);
    await s.page.goto(s.base);
    await ask({ pattern: "late.example.org", expiresAt: soon(3) });
    const card = dock().getByRole("article");
    await card.getByRole("button", { name: "Approve late.example.org" }).waitFor();
    await card.getByText("nobody answered in time").waitFor();
    expect(await card.getByRole("button").count()).toBe(0);
  });

  it("shows why an answer was refused, and stays", async () => {
    s = await open(browser);
    await s.page.goto(s.base);
    await ask({ pattern: "a.example.org" });
    s.server.world["failAnswer"] = { code: "forbidden", detail: "the request cannot be answered: you are a viewer of workspace default: an admin can change that" };
    await dock().getByRole("button", { name: "Approve a.example.org" }).click();
    await dock().getByText("you are a viewer of workspace default").waitFor();
    await dock().getByRole("button", { name: "Approve a.example.org" }).waitFor();
  });

  it("can be put aside, and the next one brings all back; F6 leads there", async () => {
    s = await open(browser);
    await startTerminal(s);
    await ask({ pattern: "a.example.org" });
    await dock().getByRole("button", { name: "Put the requests aside" }).click();
    await dock().getByRole("button", { name: "1 request waits" }).waitFor();
    await shot(s.page, "approval-aside");
    await ask({ pattern: "b.example.org" });
    await dock().getByRole("heading", { name: "2 requests wait" }).waitFor();
    await s.page.locator(".xterm-screen").click();
    const inDock = () => s.page.evaluate(() => document.activeElement?.closest(".dock") !== null);
    for (let i = 0; i < 5 && !(await inDock()); i++) await s.page.keyboard.press("F6");
    expect(await inDock()).toBe(true);
    for (let i = 0; i < 20; i++) {
      if ((await s.page.evaluate(() => document.activeElement?.getAttribute("aria-label"))) === "Approve a.example.org") break;
      await s.page.keyboard.press("Tab");
    }
    await s.page.keyboard.press("Enter");
    await expect.poll(async () => (await state()).answers.length).toBe(1);
  });

  it("is a bar on a narrow screen, under the terminal, that opens to a card", async () => {
    s = await open(browser, { viewport: { width: 390, height: 800 } });
    await startTerminal(s);
    await ask({ pattern: "a.example.org" });
    await ask({ pattern: "b.example.org" });
    const bar = dock().getByRole("button", { name: "2 requests wait" });
    await bar.waitFor();
    expect(await dock().getByRole("article").count()).toBe(0);
    const [above, below] = [await s.page.locator("main").boundingBox(), await bar.boundingBox()];
    expect((above?.y ?? 0) + (above?.height ?? 0)).toBeLessThanOrEqual(below?.y ?? 0);
    await shot(s.page, "approval-bar");
    await bar.click();
    await dock().getByText("a.example.org").first().waitFor();
    expect(await dock().getByRole("article").count()).toBe(1);
    expect(await violations(s.page)).toEqual([]);
    await shot(s.page, "approval-narrow");
    await dock().getByRole("button", { name: "Put the requests aside" }).click();
    await bar.waitFor();
  });

  it("is on a page of its own, with what was answered before", async () => {
    s = await open(browser, { colorScheme: "dark", reducedMotion: "reduce" });
    await s.page.goto(`${s.base}/approvals`);
    await s.page.getByText("Nothing waits for an answer.").waitFor();
    await ask({ pattern: "a.example.org", reason: "because" });
    await ask({ kind: "action", class: "secretAccess", verb: "clipboard_read", summary: "read the clipboard of the desktop" });
    await s.page.getByRole("article").nth(1).waitFor();
    expect(await dock().count()).toBe(0);
    expect(await violations(s.page)).toEqual([]);
    await s.page.getByRole("button", { name: "Deny a.example.org" }).click();
    await s.page.getByRole("listitem").filter({ hasText: "a.example.org" }).getByText("denied").waitFor();
    await shot(s.page, "approvals-dark");
  });
});

describe("control", () => {
  it("is taken and handed back, with this tab's name in the event stream too", async () => {
    s = await open(browser);
    await startTerminal(s);
    await s.page.getByText("Nobody has control.").waitFor();
    await s.page.getByRole("button", { name: "Take control" }).click();
    await s.page.getByText(/You have control since \d\d:\d\d\./).waitFor();
    const { takers, viewers, rigs } = await state();
    expect(takers[0]).toMatch(/^[0-9a-f]{32}$/);
    expect(viewers).toContain(takers[0]);
    expect(rigs[0]?.control?.holder.name).toBe("local");
    await s.page.locator(".xterm-screen").click();
    await s.page.keyboard.type("echo mine\r");
    await until("mine");
    expect(await violations(s.page)).toEqual([]);
    await shot(s.page, "control-mine");

    // A reload is the same viewer, another tab is another.
    await s.page.reload();
    await s.page.getByText(/You have control since/).waitFor();
    await expect.poll(async () => (await state()).viewers.at(-1)).toBe(takers[0]);
    const other = await s.context.newPage();
    await other.goto(s.base);
    await other.getByRole("heading", { name: "Spaces" }).waitFor();
    await expect.poll(async () => (await state()).viewers.at(-1)).not.toBe(takers[0]);
    await other.close();

    await s.page.getByRole("button", { name: "Hand back" }).click();
    await s.page.getByText("Nobody has control.").waitFor();
    expect(await s.page.getByText("You no longer have control").count()).toBe(0);
    expect((await state()).rigs[0]?.control).toBeUndefined();
  });

  it("of somebody else makes the terminal view-only, and says so", async () => {
    s = await open(browser);
    await startTerminal(s);
    await s.page.keyboard.type("echo before\r");
    await until("before");
    const rig = await rigID();
    await s.post("/__fake/control", { rig, holder: { name: "Anna", kind: "person" } });
    await s.page.getByText(/Anna has control since \d\d:\d\d\. You watch: what you type is not sent\./).waitFor();
    await s.page.getByText("session main: attached, view only").waitFor();
    const sent = (await state()).typed;
    await s.page.locator(".xterm-screen").click();
    await s.page.keyboard.type("echo secret-password\r");
    await s.page.evaluate(() => navigator.clipboard.writeText("pasted-by-mistake"));
    await s.page.keyboard.press("Control+Shift+V");
    expect(await s.page.getByRole("button", { name: /^Paste/ }).isDisabled()).toBe(true);
    await shot(s.page, "control-other");
    expect(await violations(s.page)).toEqual([]);

    // Handed back: the next key is sent, and nothing of what was typed before.
    await s.post("/__fake/control", { rig });
    await s.page.getByText("Nobody has control.").waitFor();
    await s.page.keyboard.type("echo after\r");
    await until("after");
    expect((await state()).typed.slice(sent.length)).toBe("echo after\r");
    expect(await screen(s.page)).not.toContain("secret-password");
  });

  it("is taken away only after a question, and a refusal is shown", async () => {
    s = await open(browser);
    await startTerminal(s);
    await s.post("/__fake/control", { rig: await rigID(), holder: { name: "Anna", kind: "person" } });
    s.server.world["noForce"] = true;
    await s.page.getByRole("button", { name: "Take it away" }).click();
    await s.page.getByRole("dialog").getByRole("button", { name: "Take it away" }).click();
    await s.page.getByText("control cannot be taken from Anna: you are a member").waitFor();
    s.server.world["noForce"] = false;
    await s.page.getByRole("dialog").getByRole("button", { name: "Take it away" }).click();
    await s.page.getByText(/You have control since/).waitFor();
    await s.page.getByRole("dialog").waitFor({ state: "detached" });
  });

  it("that goes without one's doing is told, and a lost connection says what will happen", async () => {
    s = await open(browser);
    await startTerminal(s);
    const rig = await rigID();
    await s.page.getByRole("button", { name: "Take control" }).click();
    await s.page.getByText(/You have control since/).waitFor();
    s.server.world["offline"] = true;
    await s.post("/__fake/drop");
    await s.page.getByText("The connection is lost: unless it comes back within a minute, the server hands control back.").waitFor();
    await shot(s.page, "control-offline");
    await s.post("/__fake/control", { rig, holder: { name: "Anna", kind: "person" } });
    s.server.world["offline"] = false;
    await s.page.getByText("Anna has taken control from you.").waitFor();
    await s.page.getByRole("button", { name: "Dismiss" }).click();
    await s.page.getByText("Anna has taken control from you.").waitFor({ state: "detached" });
  });
});

describe("admissions", () => {
  it("can end by themselves, and the log is summed up by host", async () => {
    s = await open(browser);
    await startTerminal(s);
    const rig = await rigID();
    await s.page.getByLabel("Host to admit").fill("example.net");
    await s.page.getByLabel("It is admitted").selectOption("for 1 h");
    await s.page.keyboard.press("Tab");
    await s.page.getByRole("button", { name: "Admit", exact: true }).click();
    await s.page.getByRole("listitem").filter({ hasText: "example.net" }).getByText("ends in 60 min").waitFor();
    for (const n of [3, 4]) await s.post("/__fake/egress", { rig, event: { verdict: "deny", reason: "notAdmitted", host: "telemetry.example.com", port: 8443, count: n } });
    await s.post("/__fake/egress", { rig, event: { verdict: "allow", reason: "admitted", host: "github.com", port: 443 } });
    await s.post("/__fake/egress", { rig, event: { verdict: "allow", reason: "closed", host: "github.com", port: 443, bytesOut: 2048, bytesIn: 1048576, seconds: 1 } });
    await s.page.getByRole("button", { name: "By host" }).click();
    const hosts = s.page.getByRole("list", { name: "Hosts, the last used first" });
    await hosts.getByText("connected 1× · 2.0 KB out, 1.0 MB in").waitFor();
    await hosts.getByText("refused 7× · not on the list").waitFor();
    await shot(s.page, "egress-hosts");
    expect(await violations(s.page)).toEqual([]);
    await hosts.getByRole("button", { name: "Admit telemetry.example.com:8443" }).click();
    await hosts.getByText("admitted").waitFor();
    expect((await state()).rigs[0]?.egress).toContain("telemetry.example.com:8443");
    await s.page.getByRole("button", { name: "Allowed" }).click();
    await hosts.getByText("telemetry.example.com").waitFor({ state: "detached" });
  });

  it("and what was refused can be looked at after the machine has gone, with its audit log", async () => {
    s = await open(browser);
    await startTerminal(s);
    const rig = await rigID();
    await s.post("/__fake/egress", { rig, event: { verdict: "deny", reason: "notAdmitted", host: "telemetry.example.com", port: 443 } });
    await s.post("/__fake/close", { rig, reason: "ttlExpired" });
    await s.page.getByRole("button", { name: "What happened in it" }).click();
    await s.page.getByText(`A closed machine: ${rig}`).waitFor();
    await s.page.getByText("closed the machine").waitFor();
    await s.page.getByRole("tab", { name: "Egress" }).click();
    await s.page.getByText("telemetry.example.com").waitFor();
    expect(await s.page.getByRole("button", { name: /^Admit/ }).count()).toBe(0);
    expect(await violations(s.page)).toEqual([]);
    await shot(s.page, "closed-log");
    await s.page.getByRole("button", { name: "Start the machine" }).click();
    await attached(s.page);
  });
});

describe("the audit log", () => {
  const list = () => s.page.getByRole("list", { name: "Audit log, the last first" });
  const opened = async () => {
    await startTerminal(s);
    await s.page.getByRole("tab", { name: "Audit" }).click();
    await list().getByText("opened the machine").waitFor();
  };

  it("folds an action and its end, collapses keys, and shows refusals, live", async () => {
    s = await open(browser);
    await opened();
    const rig = await rigID();
    await s.page.locator(".xterm-screen").click();
    await s.page.keyboard.type("echo twelve");
    await list().getByText("11 key presses").waitFor();
    await s.post("/__fake/audit", { rig, rows: [{ action: "park", outcome: "allowed", principal: "local", kind: "person" }] });
    const parked = await s.page.evaluate(async (id) => ((await (await fetch(`/v1/rigs/${id}/audit?after=0&limit=500`)).json()) as { rows: { seq: number; action: string }[] }).rows.find((r) => r.action === "park")?.seq, rig);
    await s.post("/__fake/audit", { rig, rows: [{ action: "park", ref: parked, outcome: "conflict", principal: "local", kind: "person" }] });
    await list().getByText("park the machine: failed (conflict)").waitFor();
    const agent = { principal: "build-agent", kind: "agent" };
    const began = new Date().toISOString();
    await s.post("/__fake/audit", { rig, rows: [{ ...agent, action: "exec", class: "processSpawn", time: began, detail: { argv: "<b>make</b> test" } }] });
    await list().getByRole("listitem").filter({ hasText: "ran a program" }).getByText("<b>make</b> test").waitFor();
    const seq = await s.page.evaluate(async (id) => ((await (await fetch(`/v1/rigs/${id}/audit?after=0&limit=500`)).json()) as { rows: { seq: number; action: string }[] }).rows.find((r) => r.action === "exec")?.seq, rig);
    await s.post("/__fake/audit", { rig, rows: [{ ...agent, action: "exec", ref: seq, outcome: "done", time: new Date(Date.parse(began) + 2300).toISOString() }, { ...agent, action: "write_file", outcome: "controlHeld" }] });
    await list().getByRole("listitem").filter({ hasText: "ran a program" }).getByText("in 2.3 s").waitFor();
    await list().getByText("refused: somebody else held control (controlHeld)").waitFor();
    await shot(s.page, "audit");
    expect(await violations(s.page)).toEqual([]);
    await s.page.getByRole("button", { name: "Refused" }).click();
    expect(await list().getByRole("listitem").count()).toBe(2);
  });

  it("is verified, and says where it is not as it was written", async () => {
    s = await open(browser);
    await opened();
    await s.page.getByRole("button", { name: "Verify" }).click();
    await s.page.getByText(/Intact: \d+ rows? checked/).waitFor();
    s.server.world["tampered"] = 7;
    await s.page.getByRole("button", { name: "Verify" }).click();
    await s.page.getByText("Not intact from row 7 on: its hash does not follow from the row before it.").waitFor();
    expect(await violations(s.page)).toEqual([]);
    const [file] = await Promise.all([s.page.waitForEvent("download"), s.page.getByRole("link", { name: "Export" }).click()]);
    expect(file.suggestedFilename()).toMatch(/^audit-.*\.jsonl$/);
  });

  it("of many rows begins with the last ones, loads older ones, and has no hole after a lost connection", async () => {
    s = await open(browser);
    await startTerminal(s);
    const rig = await rigID();
    const acts = (n: number, from: number) => Array.from({ length: n }, (_, i) => ({ action: "exec", detail: { argv: `run ${from + i}` } }));
    await s.post("/__fake/audit", { rig, rows: acts(950, 1) });
    await s.page.getByRole("tab", { name: "Audit" }).click();
    await list().getByText("argv: run 950", { exact: true }).waitFor();
    expect(await list().getByText("argv: run 1", { exact: true }).count()).toBe(0);
    const more = s.page.getByRole("button", { name: /Load older|Show more/ });
    for (let i = 0; i < 12 && (await list().getByText("argv: run 1", { exact: true }).count()) === 0; i++) {
      const before = await list().getByRole("listitem").count();
      await more.click();
      await expect.poll(() => list().getByRole("listitem").count(), { timeout: 15_000 }).not.toBe(before);
    }
    expect(await list().getByText("argv: run 1", { exact: true }).count()).toBe(1);
    s.server.world["offline"] = true;
    await s.post("/__fake/drop");
    await s.page.getByText("Connection to the server lost.").waitFor();
    await s.post("/__fake/audit", { rig, rows: acts(3, 951) });
    s.server.world["offline"] = false;
    await list().getByText("argv: run 953", { exact: true }).waitFor();
    for (const n of [951, 952]) expect(await list().getByText(`argv: run ${n}`, { exact: true }).count()).toBe(1);
  });
});

describe("on a narrow screen", () => {
  it("requests, control and the audit log fit 390 pixels", async () => {
    s = await open(browser, { viewport: { width: 390, height: 780 }, colorScheme: "dark" });
    await startTerminal(s);
    const overflow = () => s.page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    const take = await s.page.getByRole("button", { name: "Take control" }).boundingBox();
    expect((take?.x ?? 0) + (take?.width ?? 0)).toBeLessThanOrEqual(390);
    expect(await overflow()).toBe(0);
    await ask({ rigId: await rigID(), pattern: "a-rather-long-name.packages.example.org:8443", reason: "to install what the tests need" });
    await dock().getByRole("button", { name: "1 request waits" }).click();
    await dock().getByRole("button", { name: /^Approve/ }).waitFor();
    expect(await overflow()).toBe(0);
    expect(await violations(s.page)).toEqual([]);
    await shot(s.page, "narrow-approval");
    await dock().getByRole("button", { name: "Put the requests aside" }).click();
    await s.page.getByRole("button", { name: "Show the side panel" }).click();
    await s.page.getByRole("tab", { name: "Audit" }).click();
    await s.page.getByText("opened the machine").waitFor();
    expect(await overflow()).toBe(0);
    await shot(s.page, "narrow-audit");
  });
});

describe("an agent that has signed in", () => {
  it("is offered nothing that only people may do", async () => {
    s = await open(browser);
    s.server.world["me"] = { name: "build-agent", kind: "agent" };
    await startTerminal(s);
    await s.page.getByText("Nobody has control.").waitFor();
    await ask({ pattern: "a.example.org" });
    await dock().getByText("a.example.org").waitFor();
    for (const name of [/^Approve/, /^Deny/, "Take control", "New workspace", "Delete workspace default"]) expect(await s.page.getByRole("button", { name }).count(), String(name)).toBe(0);
    await s.page.goto(`${s.base}/settings/workspaces/default`);
    await s.page.getByText("6 patterns in effect").click();
    await s.page.getByText("codeberg.org").waitFor();
    for (const name of ["Give the role", "Add the rule", "Read only", /^Start without/]) expect(await s.page.getByRole("button", { name }).count(), String(name)).toBe(0);
    await s.page.goto(`${s.base}/settings/access`);
    await s.page.getByRole("heading", { name: "Tokens" }).waitFor();
    expect(await s.page.getByRole("button", { name: "Make a token" }).count()).toBe(0);
  });
});

describe("the settings of a workspace", () => {
  it("have guardrails that are added, refused and removed", async () => {
    s = await open(browser);
    await s.page.goto(s.base);
    await s.page.getByRole("link", { name: "Settings of workspace default" }).click();
    const programs = s.page.getByRole("list", { name: "Rules for running programs" });
    await programs.getByText("where no rule says otherwise").waitFor();
    const form = s.page.getByRole("form", { name: "New guardrail" });
    await form.getByLabel("Effect").selectOption("deny");
    await form.getByLabel("Space").selectOption("in welcome");
    await form.getByLabel("Agent").fill("build-agent");
    await form.getByRole("button", { name: "Add the rule" }).click();
    await programs.getByText("in space welcome, for agent build-agent").waitFor();
    await programs.getByText("deny", { exact: true }).waitFor();
    await fetch(`${s.base}/v1/workspaces/default/spaces/welcome`, { method: "DELETE" });
    await form.getByRole("button", { name: "Add the rule" }).click();
    await s.page.getByText("the rule was not written: no space welcome").waitFor();
    await programs.getByRole("button", { name: "Remove the rule deny in space welcome, for agent build-agent" }).click();
    await programs.getByText("in space welcome, for agent build-agent").waitFor({ state: "detached" });
  });

  it("have members with roles", async () => {
    s = await open(browser);
    await s.page.goto(`${s.base}/settings/workspaces/default`);
    await s.page.getByLabel("Who is to have a role").fill("bert");
    await s.page.getByLabel("Role", { exact: true }).selectOption("viewer");
    await s.page.getByRole("button", { name: "Give the role" }).click();
    const role = s.page.getByLabel("Role of bert", { exact: true });
    await role.selectOption("admin");
    await expect.poll(async () => ((await (await fetch(`${s.base}/v1/workspaces/default/members`)).json()) as { members: unknown }).members).toContainEqual({ principal: "bert", role: "admin" });
    s.server.world["failMember"] = { code: "forbidden", detail: "the role was not given: you are an admin of workspace default: an owner can" };
    await role.selectOption("owner");
    await s.page.getByText("the role was not given: you are an admin").waitFor();
    expect(await role.inputValue()).toBe("admin");
    await s.page.getByRole("button", { name: "Take the role of bert away" }).click();
    await role.waitFor({ state: "detached" });
  });

  it("make a space read-only, which is seen there", async () => {
    s = await open(browser);
    await s.page.goto(`${s.base}/settings/workspaces/default`);
    await s.page.getByRole("group", { name: "Mode of welcome" }).getByRole("button", { name: "Read only" }).click();
    await s.page.locator('[aria-label="Mode of welcome"] [aria-pressed="true"]').getByText("Read only").waitFor();
    await s.page.getByRole("link", { name: "welcome" }).last().click();
    await s.page.getByText("read only", { exact: true }).waitFor();
  });

  it("change what machines may reach from the start", async () => {
    s = await open(browser);
    await s.page.goto(`${s.base}/settings/workspaces/default`);
    const field = s.page.getByLabel("Host to admit from the start in every terminal");
    await field.fill("https://nonsense");
    await s.page.keyboard.press("Enter");
    await s.page.getByText(/it is not a host name: write example.com/).waitFor();
    await field.fill("artifacts.example.org");
    await s.page.keyboard.press("Enter");
    const changes = s.page.getByRole("list", { name: "Changes for terminal" });
    await changes.getByText("artifacts.example.org").waitFor();
    await s.page.getByText("7 patterns in effect").click();
    await s.page.getByRole("button", { name: "Start without codeberg.org" }).click();
    await changes.getByText("removed").waitFor();
    await s.page.getByText("6 patterns in effect").waitFor();
    expect(((await (await fetch(`${s.base}/v1/workspaces/default/egress`)).json()) as { surfaces: unknown[] }).surfaces).toContainEqual(
      expect.objectContaining({ surface: "terminal", add: ["artifacts.example.org"], remove: ["codeberg.org"] }),
    );
    await changes.getByRole("button", { name: "Put codeberg.org back" }).click();
    await s.page.getByText("7 patterns in effect").waitFor();
  });

  it.each(["light", "dark"] as const)("are accessible in %s, wide and narrow", async (colorScheme) => {
    s = await open(browser, { colorScheme, reducedMotion: "reduce" });
    await s.page.goto(`${s.base}/settings/workspaces/default`);
    await s.page.getByText("6 patterns in effect").click();
    await s.page.getByLabel("Role of local", { exact: true }).waitFor();
    expect(await violations(s.page)).toEqual([]);
    await s.page.setViewportSize({ width: 1280, height: 1700 });
    await shot(s.page, `workspace-${colorScheme}`);
    await s.page.setViewportSize({ width: 390, height: 1700 });
    expect(await s.page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)).toBe(0);
    await shot(s.page, `workspace-narrow-${colorScheme}`);
  });
});
