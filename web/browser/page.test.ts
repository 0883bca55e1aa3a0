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

const rigs = async () => (await s.post("/__fake/state"))["rigs"] as { id: string; phase: string; egress: string[] }[];
const type = (text: string) => s.page.keyboard.type(text);
const until = (text: string) => s.page.locator(".xterm-rows").getByText(text, { exact: false }).first().waitFor();

describe("signing in", () => {
  it("shows the way in to whoever is not signed in, and a link lets them in", async () => {
    s = await open(browser, { signedOut: true });
    await s.page.goto(s.base);
    await s.page.getByRole("heading", { name: "Sign in to Rigs" }).waitFor();
    await s.page.getByText("rigs signin", { exact: true }).waitFor();
    expect(await violations(s.page)).toEqual([]);
    await s.page.goto(`${s.base}/signin?code=dev`);
    await s.page.getByRole("heading", { name: "Spaces" }).waitFor();

    await s.page.getByRole("button", { name: "Sign out" }).click();
    await s.page.getByRole("heading", { name: "Sign in to Rigs" }).waitFor();
  });

  it("notices that a sign-in has ended while the page is open", async () => {
    s = await open(browser, { signedOut: true });
    await s.page.goto(`${s.base}/signin?code=dev`);
    await s.page.getByRole("heading", { name: "Spaces" }).waitFor();
    await s.page.getByRole("button", { name: "New space", exact: true }).click();
    await s.page.getByPlaceholder(/space name/).fill("late");
    (s.server.world["sessions"] as Set<string>).clear();
    await s.page.keyboard.press("Enter");
    await s.page.getByRole("heading", { name: "Sign in to Rigs" }).waitFor();
  });

  it("says so when the server does not answer, and goes on when it does", async () => {
    s = await open(browser);
    await s.page.goto(s.base);
    await s.page.getByRole("heading", { name: "Spaces" }).waitFor();
    await s.page.route("**/v1/**", (r) => r.abort());
    await s.page.reload();
    await s.page.getByRole("heading", { name: "The server does not answer" }).waitFor();
    await s.page.unroute("**/v1/**");
    await s.page.getByRole("button", { name: "Try again" }).click();
    await s.page.getByRole("heading", { name: "Spaces" }).waitFor();
  });
});

describe("workspaces and spaces", () => {
  it("are created, refused with the server's reason, and deleted after a question", async () => {
    s = await open(browser);
    await s.page.goto(s.base);
    await s.page.getByRole("button", { name: "New workspace" }).click();
    await s.page.getByLabel("Name of the new workspace").fill("Not Good");
    await s.page.keyboard.press("Enter");
    await s.page.getByText(/cannot be used: 1 to 63/).waitFor();
    await s.page.getByLabel("Name of the new workspace").fill("billing");
    await s.page.keyboard.press("Enter");
    await s.page.getByRole("button", { name: "New space in billing" }).click();
    await s.page.getByLabel("Name of the new space in billing").fill("invoices");
    await s.page.keyboard.press("Enter");
    await s.page.waitForURL("**/w/billing/invoices");

    await s.page.getByRole("button", { name: "Delete workspace billing" }).click();
    await s.page.getByRole("dialog").waitFor();
    await s.page.keyboard.press("Escape");
    await s.page.getByRole("dialog").waitFor({ state: "detached" });
    expect(await s.page.getByRole("link", { name: "invoices" }).count()).toBe(1);

    await s.page.getByRole("button", { name: "Delete workspace billing" }).click();
    await s.page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await s.page.waitForURL(s.base + "/");
    await s.page.getByRole("link", { name: "invoices" }).first().waitFor({ state: "detached" });
  });

  it("say when there is none, and when an address names one that is gone", async () => {
    s = await open(browser);
    await fetch(`${s.base}/v1/workspaces/default/spaces/welcome`, { method: "DELETE" });
    await s.page.goto(s.base);
    await s.page.getByRole("heading", { name: "No space yet" }).waitFor();
    await s.page.goto(`${s.base}/w/default/welcome`);
    await s.page.getByRole("heading", { name: "There is no space welcome in default" }).waitFor();
  });
});

describe("a machine", () => {
  it("is started by a click only: no tab, link or reload starts one", async () => {
    s = await open(browser);
    await s.page.goto(`${s.base}/w/default/welcome`);
    for (const name of ["Chromium", "Firefox", "WebKit", "Desktop", "Phone", "Terminal"]) await s.page.getByRole("tab", { name }).click();
    await s.page.getByRole("button", { name: "Start the machine" }).waitFor();
    await s.page.reload();
    await s.page.getByRole("button", { name: "Start the machine" }).waitFor();
    expect(await rigs()).toEqual([]);
  });

  it("shows each step in the server's words, then its terminal", async () => {
    s = await open(browser);
    s.server.world["manual"] = true;
    await s.page.goto(`${s.base}/w/default/welcome`);
    await s.page.getByRole("button", { name: "Start the machine" }).click();
    for (const [i, step] of ["Verifying image terminal", "Cloning the template", "Waiting for the guest to answer", "Giving the machine its own identity"].entries()) {
      await s.page.getByText(step, { exact: true }).waitFor();
      expect(await s.page.getByRole("progressbar").getAttribute("aria-valuenow")).toBe([null, "33", "67", "100"][i]);
      await s.post("/__fake/step");
    }
    await attached(s.page);
    expect(await rigs()).toHaveLength(1);
  });

  it("can be given up while it starts", async () => {
    s = await open(browser);
    s.server.world["manual"] = true;
    await s.page.goto(`${s.base}/w/default/welcome`);
    await s.page.getByRole("button", { name: "Start the machine" }).click();
    await s.page.getByRole("button", { name: "Cancel" }).click();
    await s.page.getByRole("button", { name: "Start the machine" }).waitFor();
    expect((await rigs()).map((r) => r.phase)).toEqual(["closed"]);
  });

  it("that failed says why, with its code, and can be started again", async () => {
    s = await open(browser);
    s.server.world["failNext"] = { code: "backendFailure", detail: "the machine did not start: <b>QEMU</b> exited with status 1: build the image again" };
    await s.page.goto(`${s.base}/w/default/welcome`);
    await s.page.getByRole("button", { name: "Start the machine" }).click();
    await s.page.getByText("the machine did not start: <b>QEMU</b> exited with status 1: build the image again").waitFor();
    await s.page.getByText("backendFailure", { exact: true }).waitFor();
    expect(await violations(s.page)).toEqual([]);
    await s.page.reload();
    await s.page.getByRole("button", { name: "Start again" }).click();
    await attached(s.page);
  });

  it("is parked, woken and closed, and its end is explained", async () => {
    s = await open(browser);
    await startTerminal(s);
    await type("echo before\r");
    await s.page.getByRole("tab", { name: "Details" }).click();
    await s.page.getByText("1 terminal open").waitFor();
    await s.page.getByRole("button", { name: "Park", exact: true }).click();
    await s.page.getByRole("heading", { name: "The machine is parked" }).waitFor();
    expect((await rigs())[0]?.phase).toBe("parked");
    await s.page.reload();
    await s.page.getByRole("button", { name: "Wake the machine" }).click();
    await attached(s.page);
    await until("before");

    await s.page.getByRole("button", { name: "Close the machine" }).click();
    await s.page.getByRole("dialog").getByText("It is in use: 1 terminal open.").waitFor();
    await s.page.getByRole("dialog").getByRole("button", { name: "Close the machine" }).click();
    await s.page.getByText(/was closed just now: somebody closed it/).waitFor();

    await s.page.getByRole("button", { name: "Start the machine" }).click();
    await attached(s.page);
    const last = (await rigs()).find((r) => r.phase === "ready");
    await s.post("/__fake/close", { rig: last?.id, reason: "ttlExpired" });
    await s.page.getByText(/was closed just now: its time was up/).waitFor();
    expect(await s.page.getByRole("button", { name: "Start the machine" }).count()).toBe(1);
  });

  it("that somebody else uses is not parked, and the terminal is taken up again", async () => {
    s = await open(browser);
    await startTerminal(s);
    const second = await s.context.newPage();
    await second.goto(`${s.base}/w/default/welcome?panel=none`);
    await attached(second);
    await s.page.bringToFront();
    await s.page.getByRole("tab", { name: "Details" }).click();
    await s.page.getByText("2 terminals open").waitFor();
    await s.page.getByRole("button", { name: "Park", exact: true }).click();
    await s.page.getByText(/cannot be parked: it is in use: 1 terminal open/).waitFor();
    await attached(s.page);
    expect((await rigs())[0]?.phase).toBe("ready");
  });

  it("of a surface that this host cannot run says what is missing and what helps", async () => {
    s = await open(browser);
    await s.page.goto(`${s.base}/w/default/welcome?tab=phone`);
    await s.page.getByRole("heading", { name: "Phone cannot run here" }).waitFor();
    await s.page.getByText("no Android SDK found").waitFor();
    await s.page.getByText("Install the command-line tools and set ANDROID_HOME").waitFor();
    expect(await s.page.getByRole("button", { name: "Start the machine" }).count()).toBe(0);
  });
});

describe("the terminal", () => {
  it("takes keys, shows output, and has its scrollback back after a reload", async () => {
    s = await open(browser);
    await startTerminal(s);
    await type("echo hello from the page\r");
    await until("hello from the page");
    const size = await s.page.getByTitle("Columns × rows").innerText();
    await type("size\r");
    await until(size.replace("×", "x"));
    await s.page.reload();
    await attached(s.page);
    await until("hello from the page");
    await type("echo again\r");
    await until("again");
    expect(await rigs()).toHaveLength(1);
  });

  it("says that the connection is lost, and comes back by itself", async () => {
    s = await open(browser);
    await startTerminal(s);
    await type("echo kept\r");
    await until("kept");
    s.server.world["offline"] = true;
    await s.post("/__fake/drop");
    await s.page.getByText("Connection to the server lost.").waitFor();
    await s.page.getByText("session main: connection lost").waitFor();
    expect(await screen(s.page)).toContain("kept");
    await shot(s.page, "connection-lost");
    s.server.world["offline"] = false;
    await s.page.getByText("Connection to the server lost.").waitFor({ state: "detached" });
    await attached(s.page);
    await type("echo alive\r");
    await until("alive");
    expect((await screen(s.page)).match(/echo kept/g)).toHaveLength(1);
  });

  it("follows the size of its window", async () => {
    s = await open(browser);
    await startTerminal(s);
    const before = await s.page.getByTitle("Columns × rows").innerText();
    await s.page.getByRole("button", { name: "Hide the side panel" }).first().click();
    await expect.poll(() => s.page.getByTitle("Columns × rows").innerText()).not.toBe(before);
    await s.page.locator(".xterm-screen").click();
    await type("size\r");
    await until((await s.page.getByTitle("Columns × rows").innerText()).replace("×", "x"));
  });

  it("copies and pastes", async () => {
    s = await open(browser);
    await startTerminal(s);
    await s.page.evaluate(() => navigator.clipboard.writeText("echo pasted-text"));
    await s.page.getByRole("button", { name: /^Paste/ }).click();
    await until("echo pasted-text");
    await type("\r");
    await s.page.locator(".xterm-rows > div", { hasText: /^pasted-text/ }).dblclick({ position: { x: 20, y: 8 }, force: true });
    await s.page.keyboard.press("Control+Shift+C");
    await expect.poll(() => s.page.evaluate(() => navigator.clipboard.readText())).toBe("pasted-text");
    await s.page.evaluate(() => navigator.clipboard.writeText("echo by-key"));
    await s.page.keyboard.press("Control+Shift+V");
    await until("echo by-key");
  });

  it("survives a guest that writes faster than it can be drawn", async () => {
    s = await open(browser);
    await startTerminal(s);
    await type("flood\r");
    await until("line 19999");
    await type("echo still here\r");
    await until("still here");
  });

  it("says when the shell has ended, and opens another", async () => {
    s = await open(browser);
    await startTerminal(s);
    await type("exit 3\r");
    await s.page.getByRole("heading", { name: "The shell has ended" }).waitFor();
    await s.page.getByText("With status 3.").waitFor();
    await s.page.getByRole("button", { name: "New shell" }).click();
    await attached(s.page);
  });
});

describe("egress", () => {
  it("shows a refusal live, admits its host with one click, and the machine then gets through", async () => {
    s = await open(browser);
    await startTerminal(s);
    await type("curl https://example.com\r");
    const line = s.page.getByRole("listitem").filter({ hasText: "example.com" }).filter({ hasText: "not on the list" });
    await line.waitFor();
    await line.getByRole("button", { name: "Admit example.com" }).click();
    await line.getByText("admitted").waitFor();
    expect((await rigs())[0]?.egress).toContain("example.com");
    await s.page.locator(".xterm-screen").click();
    await type("curl https://example.com\r");
    await s.page.getByText("connection ended").waitFor();

    await type("curl https://example.com:8443\r");
    await s.page.getByRole("button", { name: "Admit example.com:8443" }).click();
    await expect.poll(async () => (await rigs())[0]?.egress).toContain("example.com:8443");
    await shot(s.page, "egress");
  });

  it("takes patterns, shows the server's reason for refusing one, and removes them", async () => {
    s = await open(browser);
    await startTerminal(s);
    const field = s.page.getByLabel("Host to admit");
    await field.fill("https://example.com/");
    await s.page.keyboard.press("Enter");
    await s.page.getByText(/it is not a host name: write example.com/).waitFor();
    expect(await field.getAttribute("aria-invalid")).toBe("true");
    await field.fill("*.example.org:8443");
    await s.page.keyboard.press("Enter");
    await s.page.getByRole("listitem").getByText("*.example.org:8443").waitFor();
    await s.page.getByRole("button", { name: /^Remove \*\.example\.org:8443/ }).click();
    await s.page.getByRole("listitem").getByText("*.example.org:8443").waitFor({ state: "detached" });
    expect((await rigs())[0]?.egress).not.toContain("*.example.org:8443");
  });

  it("filters, and shows what a guest wrote as text", async () => {
    s = await open(browser);
    await startTerminal(s);
    const rig = (await rigs())[0]?.id;
    const nasty = '<img src=x onerror="document.title=1">.example.com';
    await s.post("/__fake/egress", { rig, event: { verdict: "deny", reason: "notAdmitted", host: nasty, port: 443 } });
    await s.post("/__fake/egress", { rig, event: { verdict: "allow", reason: "admitted", host: "github.com", port: 443 } });
    await s.post("/__fake/egress", { rig, event: { verdict: "deny", reason: "protocol", protocol: "icmp", address: "1.1.1.1", count: 12 } });
    const log = s.page.getByRole("list", { name: /Egress log/ });
    await log.getByText(nasty).waitFor();
    await log.getByText("×12").waitFor();
    expect(await log.locator("img").count()).toBe(0);
    await s.page.getByRole("button", { name: /^Refused/ }).click();
    await log.getByText("github.com").waitFor({ state: "detached" });
    await s.page.getByLabel("Filter the log").fill("icmp");
    expect(await log.getByRole("listitem").count()).toBe(1);
    await s.page.getByLabel("Filter the log").fill("nothing like it");
    await s.page.getByRole("button", { name: "Show all 3" }).click();
    expect(await log.getByRole("listitem").count()).toBe(3);
  });

  it("has the lines that were missed while the connection was lost", async () => {
    s = await open(browser);
    await startTerminal(s);
    const rig = (await rigs())[0]?.id;
    await s.post("/__fake/egress", { rig, event: { verdict: "deny", reason: "notAdmitted", host: "one.example.com", port: 443 } });
    await s.page.getByText("one.example.com").waitFor();
    s.server.world["offline"] = true;
    await s.post("/__fake/drop");
    await s.page.getByText("Connection to the server lost.").waitFor();
    await s.post("/__fake/egress", { rig, event: { verdict: "deny", reason: "notAdmitted", host: "two.example.com", port: 443 } });
    s.server.world["offline"] = false;
    await s.page.getByText("two.example.com").waitFor();
    expect(await s.page.getByText("one.example.com").count()).toBe(1);
  });
});

describe("settings", () => {
  it("show what the host can do, and build an image with progress that goes on while one looks elsewhere", async () => {
    s = await open(browser);
    s.server.world["manual"] = true;
    await s.page.goto(`${s.base}/settings`);
    await s.page.getByRole("heading", { name: "Enclosures" }).waitFor();
    await s.page.getByText("/dev/kvm opens, but a probe guest").waitFor();
    await s.page.getByText("Enable nested virtualisation").waitFor();
    const image = s.page.getByRole("listitem").filter({ hasText: "chromium" });
    await image.getByText("missing").waitFor();
    await image.getByRole("button", { name: "Build" }).click();
    await image.getByText("Resolving packages").waitFor();
    await s.page.getByRole("link", { name: "This server" }).click();
    await s.page.getByText("Data directory").waitFor();
    await s.post("/__fake/step");
    await s.page.getByRole("link", { name: "Enclosures" }).click();
    await image.getByText("Downloading packages").waitFor();
    await image.getByText("10.5 MB of 83.9 MB").waitFor();
    expect(await image.getByRole("progressbar").getAttribute("aria-valuenow")).toBe("13");
    s.server.world["manual"] = false;
    await s.post("/__fake/step");
    await image.getByText("ready", { exact: true }).waitFor();
    await image.getByRole("button", { name: "Build again" }).waitFor();
  });

  it("show why a build failed", async () => {
    s = await open(browser);
    s.server.world["failNext"] = { code: "capacity", detail: "the image was not built: no space left: free 2 GB" };
    await s.page.goto(`${s.base}/settings/enclosures`);
    await s.page.getByRole("listitem").filter({ hasText: "chromium" }).getByRole("button", { name: "Build" }).click();
    await s.page.getByText("the image was not built: no space left: free 2 GB").waitFor();
  });

  it("list the machines of every space and close them", async () => {
    s = await open(browser);
    await startTerminal(s);
    await s.page.getByRole("link", { name: "Settings", exact: true }).click();
    const row = s.page.getByRole("row").filter({ hasText: "default/welcome" });
    await row.getByText("running").waitFor();
    await row.getByRole("button", { name: "Close default/welcome/terminal" }).click();
    await s.page.getByRole("dialog").getByRole("button", { name: "Close the machine" }).click();
    await s.page.getByText("None. Machines are started in a space").waitFor();
    expect((await rigs()).map((r) => r.phase)).toEqual(["closed"]);
  });
});

describe("without a mouse", () => {
  it("reaches everything: skip link, arrow keys in tabs, F6 out of the terminal", async () => {
    s = await open(browser);
    await startTerminal(s);
    const focused = () => s.page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? "");
    await expect.poll(focused).toBe("Terminal input");
    await s.page.keyboard.press("Tab");
    expect(await focused()).toBe("Terminal input"); // Tab is the shell's
    await s.page.keyboard.press("F6");
    await expect.poll(focused).toBe("Egress");
    await s.page.keyboard.press("ArrowRight");
    await expect.poll(focused).toBe("Audit");
    await s.page.keyboard.press("End");
    await expect.poll(focused).toBe("Details");
    await s.page.getByText("Reference").waitFor();
    await s.page.keyboard.press("Shift+F6");
    await expect.poll(focused).toBe("Terminal input");
    await s.page.keyboard.press("Shift+F6");
    await expect.poll(focused).toContain("Terminal");
    await s.page.keyboard.press("ArrowRight");
    await s.page.getByRole("heading", { name: "Chromium cannot run here" }).waitFor();
    await s.page.keyboard.press("End");
    await s.page.getByRole("heading", { name: "Phone cannot run here" }).waitFor();

    await s.page.goto(s.base);
    await s.page.getByRole("heading", { name: "Spaces" }).waitFor();
    await s.page.keyboard.press("Tab");
    expect(await focused()).toBe("Skip to content");
    await s.page.keyboard.press("Enter");
    expect(await s.page.evaluate(() => document.activeElement?.id)).toBe("main");
  });
});

describe.each(["light", "dark"] as const)("in %s", (colorScheme) => {
  it("is accessible (WCAG 2.2 AA) on every page, and the terminal follows the colours", async () => {
    s = await open(browser, { colorScheme, reducedMotion: "reduce" });
    await s.page.goto(s.base);
    await s.page.getByRole("heading", { name: "Spaces" }).waitFor();
    expect(await violations(s.page)).toEqual([]);
    await s.page.goto(`${s.base}/w/default/welcome?tab=desktop`);
    await s.page.getByText("no desktop image is built").waitFor();
    expect(await violations(s.page)).toEqual([]);
    await startTerminal(s);
    await type("curl https://example.com\rcolours\r");
    await s.page.getByRole("button", { name: "Admit example.com" }).waitFor();
    expect(await violations(s.page)).toEqual([]);
    await shot(s.page, `space-${colorScheme}`);
    await s.page.getByRole("tab", { name: "Details" }).click();
    await s.page.getByText("Reference").waitFor();
    expect(await violations(s.page)).toEqual([]);
    await s.page.getByRole("button", { name: "Close the machine" }).click();
    expect(await violations(s.page)).toEqual([]);
    await s.page.keyboard.press("Escape");

    const ground = () => s.page.locator(".xterm-scrollable-element, .xterm-viewport").first().evaluate((e) => getComputedStyle(e.closest(".term-view") ?? e).backgroundColor);
    const before = await ground();
    await s.page.getByRole("button", { name: colorScheme === "light" ? "Dark" : "Light" }).click();
    await expect.poll(ground).not.toBe(before);

    for (const path of ["enclosures", "server", "access"]) {
      await s.page.goto(`${s.base}/settings/${path}`);
      await s.page.locator("main h2").first().waitFor();
      expect(await violations(s.page)).toEqual([]);
      await shot(s.page, `settings-${path}-${colorScheme}`);
    }
  });
});

describe("on a narrow screen", () => {
  it("fits 720 pixels, with the sidebar and the panel as drawers", async () => {
    s = await open(browser, { viewport: { width: 720, height: 800 } });
    await startTerminal(s);
    const overflow = () => s.page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    expect(await overflow()).toBe(0);
    await s.page.getByRole("button", { name: "Show the side panel" }).click();
    await s.page.getByLabel("Host to admit").waitFor();
    expect(await overflow()).toBe(0);
    await s.page.getByRole("tab", { name: "Egress" }).press("Escape");
    await s.page.getByLabel("Host to admit").waitFor({ state: "detached" });
    await s.page.getByRole("button", { name: "Open the menu" }).click();
    await s.page.getByRole("link", { name: "Settings", exact: true }).click();
    await s.page.getByRole("heading", { name: "Enclosures" }).waitFor();
    expect(await overflow()).toBe(0);
    await shot(s.page, "narrow-settings");
  });
});
