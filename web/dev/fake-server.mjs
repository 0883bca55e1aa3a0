// A stand-in for `rigs serve` that implements docs/api.md in memory, so that the page can be developed and tested without
// a hypervisor. Its terminal is no shell: it echoes lines and knows a handful of words (see `commands`).
//
//   node dev/fake-server.mjs [--port 7979] [--host-without-browser]
//
// Tests steer it through POST /__fake/…, which the real server does not have.
import { createHash, randomBytes } from "node:crypto";
import { createReadStream, existsSync, statSync } from "node:fs";
import http from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { WebSocketServer } from "ws";

const dist = fileURLToPath(new URL("../dist/", import.meta.url));

/** What the real server sends with the page; see docs/page.md. */
const CSP =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const statuses = {
  invalidRequest: 400,
  unauthenticated: 401,
  forbidden: 403,
  notFound: 404,
  conflict: 409,
  controlHeld: 409,
  notReady: 409,
  gone: 410,
  backendFailure: 502,
  unavailable: 503,
};

class Refusal extends Error {
  constructor(code, detail, field) {
    super(detail);
    this.body = { title: code, status: statuses[code] ?? 500, detail, code, ...(field && { field }) };
  }
}

const now = () => new Date().toISOString();
const later = (seconds) => new Date(Date.now() + seconds * 1000).toISOString();
const newId = () => [...randomBytes(10)].map((b) => "0123456789abcdefghjkmnpqrstvwxyz"[b % 32]).join("");
const digest = () => `sha256:${randomBytes(32).toString("hex")}`;
const NAME = /^[a-z0-9][a-z0-9._-]{0,62}$/;
const PATTERN = /^(\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.(\*|[a-z0-9]([a-z0-9-]*[a-z0-9])?))+(:\d{1,5})?$/;

const defaults = {
  terminal: { memoryMB: 512, vcpus: 2, ttlSeconds: 28800, idleSeconds: 2700, diskMB: 8192 },
  browser: { memoryMB: 2048, vcpus: 2, ttlSeconds: 7200, idleSeconds: 900, diskMB: 8192 },
  desktop: { memoryMB: 4096, vcpus: 4, ttlSeconds: 7200, idleSeconds: 900, diskMB: 16384 },
};

const baseline = ["github.com", "*.github.com", "gitlab.com", "codeberg.org", "packages.example.net", "*.packages.example.net"];

// --- frames ---------------------------------------------------------------------------------------------------------

const frame = (kind, payload = Buffer.alloc(0)) => {
  const out = Buffer.alloc(5 + payload.length);
  out[0] = kind;
  out.writeUInt32BE(payload.length, 1);
  payload.copy(out, 5);
  return out;
};

function* frames(state, chunk) {
  state.rest = Buffer.concat([state.rest, chunk]);
  while (state.rest.length >= 5) {
    const n = state.rest.readUInt32BE(1);
    if (n > 65536) throw new Error("frame too large");
    if (state.rest.length < 5 + n) return;
    yield [state.rest[0], state.rest.subarray(5, 5 + n)];
    state.rest = state.rest.subarray(5 + n);
  }
}

// --- the server -----------------------------------------------------------------------------------------------------

/** start serves on 127.0.0.1 and returns the port, a way to stop, and the state for tests. */
export async function start({ port = 0, open = true } = {}) {
  const started = now();
  const world = {
    sessions: new Set(),
    codes: new Set(["dev"]),
    workspaces: new Map(),
    rigs: new Map(),
    logs: new Map(),
    sessionsOf: new Map(), // rig id → terminal session
    ends: new Map(), // rig id → pattern → when it ends
    audits: new Map(), // rig id → rows
    approvals: [],
    viewers: [], // what event streams said in viewer=
    me: { name: "local", kind: "person" },
    tampered: undefined, // number of an audit row that verifying finds changed
    typed: "", // what terminals were sent
    images: [
      { name: "terminal", digest: digest(), createdAt: later(-86400), sizeBytes: 148 * 1048576, surfaces: ["terminal"], default: true, state: "ready", detail: "" },
      { name: "chromium", sizeBytes: 0, surfaces: ["browser"], default: true, state: "missing", detail: "not built yet" },
    ],
    templates: [],
    streams: new Set(),
    sockets: new Set(),
    failNext: undefined,
    stepMS: 250,
    manual: false, // steps wait for POST /__fake/step
    offline: false,
    checked: now(),
  };
  world.templates.push({ key: randomBytes(16).toString("hex"), surface: "terminal", image: `terminal@${world.images[0].digest}`, memoryMB: 512, vcpus: 2, accel: "tcg", createdAt: later(-80000), sizeBytes: 126 * 1048576, state: "ready" });
  const addWorkspace = (name) => world.workspaces.set(name, { name, createdAt: now(), spaces: new Map(), rules: [], members: [{ principal: "local", role: "owner" }], egress: new Map() });
  const addSpace = (ws, name) => world.workspaces.get(ws).spaces.set(name, { name, workspace: ws, createdAt: now() });
  addWorkspace("default");
  addSpace("default", "welcome");

  const live = (r) => ["provisioning", "ready", "parked"].includes(r.phase);
  const emit = (event) => {
    for (const s of world.streams) s.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  };
  const change = (r, patch) => {
    Object.assign(r, patch); // what is undefined is left out of the JSON
    emit({ type: "rig", rigId: r.id, rig: r });
  };
  const log = (r, e) => {
    const lines = world.logs.get(r.id);
    const event = { seq: (lines.at(-1)?.seq ?? 0) + 1, time: now(), protocol: "tcp", ...e };
    lines.push(event);
    emit({ type: "egress", rigId: r.id, egress: event });
  };

  const audit = (r, row) => {
    const rows = world.audits.get(r.id);
    const next = { rigId: r.id, seq: rows.length + 1, time: now(), principal: world.me.name, kind: world.me.kind, outcome: "allowed", ...row };
    next.hash = createHash("sha256").update(rows.at(-1)?.hash ?? "").update(JSON.stringify(next)).digest("hex");
    rows.push(next);
    emit({ type: "audit", rigId: r.id, audit: next });
    return next;
  };
  const setApproval = (a, patch) => {
    Object.assign(a, patch);
    emit({ type: "approval", ...(a.rigId && { rigId: a.rigId }), approval: a });
  };
  const ask = (body) => {
    const a = { id: newId(), kind: "egress", workspace: "default", space: "welcome", by: { name: "build-agent", kind: "agent" }, class: body.kind === "action" ? "processSpawn" : "networkEgress", state: "pending", createdAt: now(), expiresAt: later(300), ...body };
    world.approvals.push(a);
    setApproval(a, {});
    return a;
  };
  const admit = (r, pattern, seconds) => {
    if (!r.egress.includes(pattern)) r.egress.push(pattern);
    if (seconds > 0) world.ends.get(r.id).set(pattern, later(seconds));
    else world.ends.get(r.id).delete(pattern);
    audit(r, { action: "egress.allow", class: "networkEgress", detail: { pattern } });
    emit({ type: "rules", rigId: r.id, rules: r.egress });
  };
  const rulesOf = (r) => ({ patterns: r.egress, entries: r.egress.map((pattern) => ({ pattern, ...(world.ends.get(r.id).has(pattern) && { expiresAt: world.ends.get(r.id).get(pattern) }) })) });
  const heldByOther = (r) => r.control && (r.control.holder.name !== world.me.name || r.control.holder.kind !== world.me.kind);

  const waiting = [];
  const tick = () => new Promise((ok) => (world.manual ? waiting.push(ok) : setTimeout(ok, world.stepMS)));
  const boot = async (r) => {
    const fail = world.failNext;
    world.failNext = undefined;
    const steps = [
      { text: "Verifying image terminal" },
      { text: "Cloning the template", done: 1, total: 3, unit: "steps" },
      { text: "Waiting for the guest to answer", done: 2, total: 3, unit: "steps" },
      { text: "Giving the machine its own identity", done: 3, total: 3, unit: "steps" },
    ];
    for (const [i, step] of steps.entries()) {
      if (r.phase !== "provisioning") return;
      change(r, { step });
      await tick();
      if (fail && i === 1) return change(r, { phase: "failed", step: undefined, error: fail });
    }
    if (r.phase !== "provisioning") return;
    change(r, { phase: "ready", step: undefined, readyAt: now(), boot: "clone", accel: "tcg", residentMB: 143 });
  };
  const close = (r, closeReason) => {
    if (r.phase === "closed") return;
    change(r, { phase: "closing" });
    const session = world.sessionsOf.get(r.id);
    world.sessionsOf.delete(r.id);
    for (const c of session?.clients ?? []) c.close();
    for (const a of world.approvals.filter((a) => a.rigId === r.id && a.state === "pending")) setApproval(a, { state: "canceled" });
    audit(r, { action: "close", class: "enclosureControl", detail: { reason: closeReason } });
    change(r, { phase: "closed", control: undefined, closeReason, closedAt: now(), inUse: undefined });
  };
  const use = (r) => {
    const n = world.sessionsOf.get(r.id)?.clients.size ?? 0;
    change(r, { inUse: n > 0 ? [`${n} terminal${n === 1 ? "" : "s"} open`] : undefined });
  };

  const admitted = (r, host, p) =>
    r.egress.some((e) => {
      const [pat, port] = e.split(":");
      const portOK = port ? Number(port) === p : p === 80 || p === 443;
      return portOK && (pat === host || (pat.startsWith("*.") && host.endsWith(pat.slice(1))));
    });

  // --- the terminal -------------------------------------------------------------------------------------------------
  const PROMPT = "\x1b[32mrig@welcome\x1b[0m:\x1b[34m~\x1b[0m$ ";
  const commands = {
    help: () => "words: echo, curl, colours, flood, size, exit, help\r\n",
    echo: (args) => args.join(" ") + "\r\n",
    curl: (args, r) => {
      const url = args.find((a) => a.includes(".")) ?? "https://example.com";
      const m = /^(?:(https?):\/\/)?([^/:]+)(?::(\d+))?/.exec(url);
      const host = m[2];
      const p = Number(m[3] ?? (m[1] === "http" ? 80 : 443));
      const address = `198.18.0.${(world.logs.get(r.id).length % 250) + 2}`;
      if (/^[\d.]+$/.test(host)) {
        log(r, { verdict: "deny", reason: "rawAddress", address: host, port: p });
      } else if (!admitted(r, host, p)) {
        log(r, { verdict: "deny", reason: r.egress.includes(host) ? "portNotAdmitted" : "notAdmitted", host, address, port: p });
      } else {
        log(r, { verdict: "allow", reason: "admitted", host, address, port: p });
        log(r, { verdict: "allow", reason: "closed", host, address, port: p, bytesOut: 812, bytesIn: 18211, seconds: 0.21 });
        return "<!doctype html><title>Example Domain</title>\r\n";
      }
      return `curl: (7) Failed to connect to ${host} port ${p} after 6 ms: Connection refused\r\n`;
    },
    colours: () =>
      [0, 1]
        .map((b) => [0, 1, 2, 3, 4, 5, 6, 7].map((c) => `\x1b[${b ? 90 + c : 30 + c}m colour \x1b[0m`).join(""))
        .join("\r\n") + "\r\n",
    flood: () => Array.from({ length: 20000 }, (_, i) => `line ${i} ${"x".repeat(80)}\r\n`).join(""),
    size: (_, __, s) => `${s.size.cols}x${s.size.rows}\r\n`,
  };

  const sessionOf = (r) => {
    let s = world.sessionsOf.get(r.id);
    if (!s) {
      s = { clients: new Set(), scrollback: "", line: "", size: { cols: 80, rows: 24 } };
      world.sessionsOf.set(r.id, s);
      say(s, PROMPT);
    }
    return s;
  };
  const say = (s, text) => {
    s.scrollback = (s.scrollback + text).slice(-262144);
    const data = Buffer.from(text);
    for (const c of s.clients) for (let i = 0; i < data.length; i += 65536) c.send(frame(4, data.subarray(i, i + 65536)));
  };
  const typed = (r, s, text) => {
    for (const ch of text) {
      if (ch === "\r") {
        const [word, ...args] = s.line.trim().split(/\s+/);
        s.line = "";
        say(s, "\r\n");
        if (word === "exit") {
          const status = { code: Number(args[0] ?? 0), seconds: 12.5 };
          for (const c of s.clients) {
            c.send(frame(9, Buffer.from(JSON.stringify(status))));
            c.close();
          }
          world.sessionsOf.delete(r.id);
          return;
        }
        if (word) say(s, commands[word] ? commands[word](args, r, s) : `${word}: this terminal only echoes; try help\r\n`);
        say(s, PROMPT);
      } else if (ch === "\x7f") {
        if (s.line) {
          s.line = s.line.slice(0, -1);
          say(s, "\b \b");
        }
      } else if (ch === "\x03") {
        s.line = "";
        say(s, `^C\r\n${PROMPT}`);
      } else if (ch >= " ") {
        s.line += ch;
        say(s, ch);
      }
    }
  };
  const attach = (socket, r) => {
    const state = { rest: Buffer.alloc(0) };
    let s;
    world.sockets.add(socket);
    socket.on("message", (data) => {
      for (const [kind, payload] of frames(state, data)) {
        if (kind === 1) {
          const req = JSON.parse(payload);
          s = sessionOf(r);
          s.size = req.size;
          s.clients.add(socket);
          // Cut in two on purpose: message boundaries mean nothing.
          const replay = frame(4, Buffer.from(s.scrollback.slice(-60000)));
          socket.send(replay.subarray(0, 3));
          socket.send(replay.subarray(3));
          use(r);
        } else if (kind === 2) {
          const ack = Buffer.alloc(4);
          ack.writeUInt32BE(payload.length);
          socket.send(frame(6, ack));
          world.typed += payload.toString();
          if (heldByOther(r)) audit(r, { action: "terminal.input", class: "enclosureControl", outcome: "controlHeld", detail: { bytes: String(payload.length) } });
          else {
            audit(r, { action: "terminal.input", class: "enclosureControl", detail: { bytes: String(payload.length), hmac: "9f" } });
            typed(r, s, payload.toString());
          }
        } else if (kind === 7) s.size = JSON.parse(payload);
      }
    });
    socket.on("close", () => {
      world.sockets.delete(socket);
      s?.clients.delete(socket);
      if (r.phase === "ready" && s) use(r);
    });
  };

  // --- requests -----------------------------------------------------------------------------------------------------
  const space = (ws, name) => {
    const w = world.workspaces.get(ws);
    if (!w) throw new Refusal("notFound", `no workspace ${ws}`);
    if (name !== undefined && !w.spaces.has(name)) throw new Refusal("notFound", `no space ${name} in workspace ${ws}`);
    return w;
  };
  const rigOf = (id) => {
    const r = world.rigs.get(id);
    if (!r) throw new Refusal("notFound", `no rig ${id}: it may belong to another server: rigs ls shows what there is`);
    return r;
  };
  const liveRig = (id) => {
    const r = rigOf(id);
    if (r.phase === "closed") throw new Refusal("gone", `rig ${id} is closed (${r.closeReason})`);
    return r;
  };
  const named = (body) => {
    if (!NAME.test(body.name ?? ""))
      throw new Refusal("invalidRequest", `the name ${JSON.stringify(body.name)} cannot be used: 1 to 63 of a-z 0-9 . _ -, beginning with a letter or digit`, "name");
    return body.name;
  };
  const rigsIn = (ws, sp) => [...world.rigs.values()].filter((r) => r.workspace === ws && (sp === undefined || r.space === sp));

  const egressOf = (w) => ({
    surfaces: ["terminal", "browser", "desktop"].map((surface) => {
      const { add = [], remove = [] } = w.egress.get(surface) ?? {};
      return { surface, add, remove, effective: [...(surface === "terminal" ? baseline : []).filter((x) => !remove.includes(x)), ...add] };
    }),
  });

  const doctor = () => ({
    host: { os: "linux", arch: "amd64", cpus: 2, memoryMB: 7936, diskFreeMB: 41200 },
    checks: [
      { name: "qemu", ok: true, detail: "QEMU 7.2.19 (/usr/bin/qemu-system-x86_64)" },
      { name: "kvm", ok: false, detail: "/dev/kvm opens, but a probe guest did not reach user space within 10 s", fix: "Enable nested virtualisation, or go on with software emulation: slower, works everywhere" },
      { name: "tcg", ok: true, detail: "a probe guest reached user space in 1.9 s" },
      { name: "disk", ok: true, detail: "40 GB free in the data directory" },
      { name: "android-sdk", ok: false, detail: "no Android SDK found", fix: "Install the command-line tools and set ANDROID_HOME" },
    ],
    surfaces: [
      { surface: "terminal", state: "ready", accel: "tcg", detail: "boots with software emulation", checks: ["qemu", "tcg", "disk"] },
      { surface: "browser", state: "missing", accel: "tcg", detail: "this version of the server cannot drive a browser yet", checks: ["qemu"] },
      { surface: "desktop", state: "missing", accel: "tcg", detail: "no desktop image is built", fix: "rigs image build desktop", checks: ["qemu"] },
      { surface: "phone", state: "missing", detail: "no Android SDK found", fix: "Install the command-line tools and set ANDROID_HOME", checks: ["android-sdk"] },
      { surface: "mac", state: "unsupported", detail: "macOS machines need an Apple silicon Mac as host", checks: [] },
    ],
  });

  const job = async (res, steps, end) => {
    res.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    const say = (event, data) => res.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
    for (const step of steps) {
      say("step", step);
      await tick();
    }
    const [event, data] = end();
    say(event, data);
    res.end();
  };

  const route = async (req, res, url, body) => {
    const at = (pattern) => {
      const want = pattern.split(" ");
      const parts = url.pathname.split("/").map(decodeURIComponent);
      const names = want[1].split("/");
      if (req.method !== want[0] || parts.length !== names.length) return undefined;
      const out = {};
      for (const [i, n] of names.entries()) {
        if (n.startsWith(":")) out[n.slice(1)] = parts[i];
        else if (n !== parts[i]) return undefined;
      }
      return out;
    };
    const send = (value, status = 200) => {
      res.writeHead(status, { "Content-Type": "application/json" });
      res.end(JSON.stringify(value));
    };
    const none = () => {
      res.writeHead(204);
      res.end();
    };
    let p;
    if (at("GET /v1/server")) return send({ version: "0.1.0-dev", dataDir: "/var/lib/rigs", startedAt: started, principal: world.me });
    if (at("GET /v1/doctor")) return send(doctor());
    if (at("POST /v1/signout")) {
      world.sessions.delete(/rigs_session=([^;]+)/.exec(req.headers.cookie ?? "")?.[1]);
      res.setHeader("Set-Cookie", "rigs_session=; Max-Age=0; Path=/");
      return none();
    }
    if (at("GET /v1/workspaces"))
      return send({ workspaces: [...world.workspaces.values()].map((w) => ({ name: w.name, createdAt: w.createdAt, spaces: w.spaces.size, rigs: rigsIn(w.name).filter(live).length })) });
    if (at("POST /v1/workspaces")) {
      const name = named(body);
      if (world.workspaces.has(name)) throw new Refusal("conflict", `workspace ${name} exists already: choose another name`, "name");
      addWorkspace(name);
      return send({ name, createdAt: now(), spaces: 0, rigs: 0 }, 201);
    }
    if ((p = at("DELETE /v1/workspaces/:ws"))) {
      space(p.ws);
      for (const r of rigsIn(p.ws)) close(r, "workspaceGone");
      world.workspaces.delete(p.ws);
      return none();
    }
    if ((p = at("GET /v1/workspaces/:ws/spaces")))
      return send({ spaces: [...space(p.ws).spaces.values()].map((s) => ({ ...s, rigs: rigsIn(p.ws, s.name).filter(live).length })) });
    if ((p = at("POST /v1/workspaces/:ws/spaces"))) {
      const w = space(p.ws);
      const name = named(body);
      if (w.spaces.has(name)) throw new Refusal("conflict", `space ${name} exists already in workspace ${p.ws}: choose another name`, "name");
      addSpace(p.ws, name);
      return send({ name, workspace: p.ws, createdAt: now(), rigs: 0 }, 201);
    }
    if ((p = at("DELETE /v1/workspaces/:ws/spaces/:sp"))) {
      const w = space(p.ws, p.sp);
      for (const r of rigsIn(p.ws, p.sp)) close(r, "conversationEnded");
      w.spaces.delete(p.sp);
      return none();
    }
    if (at("GET /v1/rigs")) {
      const q = url.searchParams;
      const rigs = [...world.rigs.values()].filter(
        (r) => (q.get("all") === "true" || r.phase !== "closed") && (!q.get("workspace") || r.workspace === q.get("workspace")) && (!q.get("space") || r.space === q.get("space")),
      );
      return send({ rigs: rigs.reverse() });
    }
    if (at("POST /v1/rigs")) {
      const res0 = defaults[body.surface];
      if (!res0) throw new Refusal("unavailable", `a ${body.surface} cannot be opened: this host lacks what it needs: rigs doctor says what`);
      const report = doctor().surfaces.find((s) => s.surface === body.surface);
      if (report.state !== "ready") throw new Refusal("unavailable", `a ${body.surface} cannot be opened: ${report.detail}${report.fix ? `: ${report.fix}` : ""}`);
      const { workspace = "default", space: sp = "default" } = body;
      if (!world.workspaces.has(workspace)) addWorkspace(workspace);
      if (!world.workspaces.get(workspace).spaces.has(sp)) addSpace(workspace, sp);
      const has = rigsIn(workspace, sp).find((r) => live(r) && r.surface === body.surface && r.engine === body.engine);
      if (has && !body.new) return send(has);
      const r = {
        id: newId(), workspace, space: sp, surface: body.surface, ...(body.engine && { engine: body.engine }),
        image: `terminal@${world.images[0].digest}`, resources: res0, openedBy: "local", phase: "provisioning",
        openedAt: now(), expiresAt: later(res0.ttlSeconds), egress: [...baseline],
      };
      world.rigs.set(r.id, r);
      world.logs.set(r.id, []);
      world.ends.set(r.id, new Map());
      world.audits.set(r.id, []);
      emit({ type: "rig", rigId: r.id, rig: r });
      audit(r, { action: "open", class: "enclosureControl", detail: { surface: r.surface, image: r.image } });
      void boot(r);
      return send(r, 201);
    }
    if ((p = at("GET /v1/rigs/:id"))) return send(rigOf(p.id));
    if ((p = at("DELETE /v1/rigs/:id"))) {
      close(rigOf(p.id), "requested");
      return send(rigOf(p.id));
    }
    if ((p = at("POST /v1/rigs/:id/park"))) {
      const r = liveRig(p.id);
      if (r.inUse) throw new Refusal("conflict", `rig ${r.id} cannot be parked: it is in use: ${r.inUse.join(", ")}`);
      change(r, { phase: "parked", control: undefined });
      audit(r, { action: "park", class: "enclosureControl" });
      return send(r);
    }
    if ((p = at("POST /v1/rigs/:id/wake"))) {
      const r = liveRig(p.id);
      change(r, { phase: "ready" });
      return send(r);
    }
    if ((p = at("POST /v1/rigs/:id/egress/allow"))) {
      const r = liveRig(p.id);
      if (!PATTERN.test(body.pattern))
        throw new Refusal("invalidRequest", `the pattern ${JSON.stringify(body.pattern)} cannot be admitted: it is not a host name: write example.com, *.example.com or example.com:8443`, "pattern");
      admit(r, body.pattern, body.ttlSeconds ?? 0);
      return send(rulesOf(r));
    }
    if ((p = at("POST /v1/rigs/:id/egress/deny"))) {
      const r = liveRig(p.id);
      r.egress = r.egress.filter((e) => e !== body.pattern);
      emit({ type: "rules", rigId: r.id, rules: r.egress });
      return send(rulesOf(r));
    }
    if ((p = at("GET /v1/rigs/:id/egress"))) return send(rulesOf(liveRig(p.id)));
    if ((p = at("POST /v1/rigs/:id/take"))) {
      const r = liveRig(p.id);
      if (heldByOther(r) && !body.force) throw new Refusal("controlHeld", `control cannot be taken: ${r.control.holder.name} holds it: ask for it, or take it by force`);
      if (heldByOther(r) && world.noForce) throw new Refusal("forbidden", `control cannot be taken from ${r.control.holder.name}: you are a member of workspace ${r.workspace}: an admin can`);
      world.takers = [...(world.takers ?? []), body.viewer];
      audit(r, { action: "take", class: "enclosureControl" });
      change(r, { control: { holder: world.me, since: now() } });
      return send(r);
    }
    if ((p = at("POST /v1/rigs/:id/give"))) {
      const r = liveRig(p.id);
      audit(r, { action: "give", class: "enclosureControl" });
      change(r, { control: undefined });
      return send(r);
    }
    if ((p = at("GET /v1/rigs/:id/audit"))) {
      rigOf(p.id);
      const after = Number(url.searchParams.get("after") ?? 0);
      const limit = Number(url.searchParams.get("limit") ?? 100);
      const rows = world.audits.get(p.id);
      if (url.searchParams.get("tail") === "true") return send({ rows: rows.slice(-limit) });
      const rest = rows.slice(after);
      return send({ rows: rest.slice(0, limit), more: rest.length > limit });
    }
    if ((p = at("GET /v1/rigs/:id/audit/verify"))) {
      const rows = world.audits.get(rigOf(p.id).id);
      return send(world.tampered ? { ok: false, rows: world.tampered, badSeq: world.tampered, detail: "its hash does not follow from the row before it" } : { ok: true, rows: rows.length });
    }
    if ((p = at("GET /v1/rigs/:id/audit/export"))) {
      rigOf(p.id);
      res.writeHead(200, { "Content-Type": "application/jsonl", "Content-Disposition": `attachment; filename="audit-${p.id}.jsonl"` });
      return void res.end(world.audits.get(p.id).map((r) => `${JSON.stringify(r)}\n`).join(""));
    }
    if (at("GET /v1/approvals")) {
      const state = url.searchParams.get("state");
      return send({ approvals: world.approvals.filter((a) => !state || a.state === state).toReversed() });
    }
    for (const [verb, state] of [["approve", "approved"], ["deny", "denied"]]) {
      if (!(p = at(`POST /v1/approvals/:id/${verb}`))) continue;
      const a = world.approvals.find((x) => x.id === p.id);
      if (!a) throw new Refusal("notFound", `no approval ${p.id}`);
      if (world.failAnswer) throw new Refusal(world.failAnswer.code, world.failAnswer.detail);
      if (a.state !== "pending") throw new Refusal("conflict", `approval ${a.id} cannot be answered: it is ${a.state} already${a.answeredBy ? `, by ${a.answeredBy}` : ""}`);
      world.answers = [...(world.answers ?? []), { id: a.id, verb, ...body }];
      if (verb === "approve" && a.kind === "egress") admit(liveRig(a.rigId), a.pattern, body.ttlSeconds ?? a.ttlSeconds ?? 0);
      setApproval(a, { state, answeredAt: now(), answeredBy: world.me.name, ...(body.note && { note: body.note }) });
      return send(a);
    }
    if ((p = at("GET /v1/workspaces/:ws/rules"))) return send({ rules: space(p.ws).rules });
    if ((p = at("POST /v1/workspaces/:ws/rules"))) {
      const rule = { id: newId(), createdAt: now(), createdBy: world.me.name, ...body };
      if (body.space && !space(p.ws).spaces.has(body.space)) throw new Refusal("notFound", `the rule was not written: no space ${body.space} in workspace ${p.ws}`, "space");
      space(p.ws).rules.push(rule);
      return send(rule, 201);
    }
    if ((p = at("DELETE /v1/workspaces/:ws/rules/:id"))) {
      const w = space(p.ws);
      w.rules = w.rules.filter((r) => r.id !== p.id);
      return none();
    }
    if ((p = at("GET /v1/workspaces/:ws/members"))) return send({ members: space(p.ws).members });
    if ((p = at("PUT /v1/workspaces/:ws/members/:name"))) {
      const w = space(p.ws);
      if (world.failMember) throw new Refusal(world.failMember.code, world.failMember.detail);
      const m = w.members.find((x) => x.principal === p.name);
      if (m) m.role = body.role;
      else w.members.push({ principal: p.name, role: body.role });
      return send({ principal: p.name, role: body.role });
    }
    if ((p = at("DELETE /v1/workspaces/:ws/members/:name"))) {
      const w = space(p.ws);
      w.members = w.members.filter((x) => x.principal !== p.name);
      return none();
    }
    if ((p = at("GET /v1/workspaces/:ws/egress"))) return send(egressOf(space(p.ws)));
    if ((p = at("PUT /v1/workspaces/:ws/egress"))) {
      const w = space(p.ws);
      for (const e of body.surfaces) {
        const bad = e.add?.find((x) => !PATTERN.test(x));
        if (bad) throw new Refusal("invalidRequest", `the pattern ${JSON.stringify(bad)} cannot be admitted: it is not a host name: write example.com, *.example.com or example.com:8443`, "surfaces");
        w.egress.set(e.surface, { add: e.add ?? [], remove: e.remove ?? [] });
      }
      return send(egressOf(w));
    }
    if ((p = at("PATCH /v1/workspaces/:ws/spaces/:sp"))) {
      const sp = space(p.ws, p.sp).spaces.get(p.sp);
      sp.mode = body.mode;
      return send(sp);
    }
    if ((p = at("GET /v1/rigs/:id/egress/log"))) {
      rigOf(p.id);
      const after = Number(url.searchParams.get("after") ?? 0);
      return send({ events: world.logs.get(p.id).filter((e) => e.seq > after) });
    }
    if (at("GET /v1/events")) {
      res.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
      res.write(": hello\n\n");
      for (const r of world.rigs.values()) if (live(r)) res.write(`event: rig\ndata: ${JSON.stringify({ type: "rig", rigId: r.id, rig: r })}\n\n`);
      world.streams.add(res);
      world.viewers.push(url.searchParams.get("viewer"));
      res.on("close", () => world.streams.delete(res));
      return undefined;
    }
    if (at("GET /v1/images")) return send({ images: world.images });
    if ((p = at("POST /v1/images/:name/build"))) {
      const image = world.images.find((i) => i.name === p.name);
      if (!image) throw new Refusal("notFound", `no image definition is named ${p.name}`);
      const steps = ["Resolving packages", ...Array.from({ length: 8 }, (_, i) => ({ text: "Downloading packages", done: (i + 1) * 11e6, total: 88e6, unit: "bytes" })), "Writing layers"];
      return job(res, steps.map((s) => (typeof s === "string" ? { text: s } : s)), () => {
        if (world.failNext) return ["error", world.failNext];
        Object.assign(image, { state: "ready", digest: digest(), createdAt: now(), sizeBytes: 412 * 1048576, detail: "" });
        return ["done", image];
      });
    }
    if ((p = at("DELETE /v1/images/:name"))) {
      const image = world.images.find((i) => i.name === p.name);
      if (!image) throw new Refusal("notFound", `no image is named ${p.name}`);
      Object.assign(image, { state: "missing", sizeBytes: 0, detail: "not built yet" });
      delete image.digest;
      delete image.createdAt;
      return none();
    }
    if (at("GET /v1/templates")) return send({ templates: world.templates });
    if (at("POST /v1/templates"))
      return job(res, [{ text: "Booting terminal" }, { text: "Freezing the machine" }], () => {
        const t = { ...world.templates[0], key: randomBytes(16).toString("hex"), surface: body.surface, image: `terminal@${world.images[0].digest}`, memoryMB: 512, vcpus: 2, accel: "tcg", createdAt: now(), sizeBytes: 126 * 1048576, state: "ready" };
        world.templates = [t];
        return ["done", t];
      });
    if ((p = at("DELETE /v1/templates/:key"))) {
      world.templates = world.templates.filter((t) => t.key !== p.key);
      return none();
    }
    throw new Refusal("notFound", `no such address: ${req.method} ${url.pathname}`);
  };

  const fakeControl = (url, body) => {
    switch (url.pathname) {
      case "/__fake/set":
        Object.assign(world, body);
        return {};
      case "/__fake/step":
        waiting.shift()?.();
        return {};
      case "/__fake/drop":
        for (const s of world.streams) s.destroy();
        for (const s of world.sockets) s.terminate();
        return {};
      case "/__fake/egress":
        log(rigOf(body.rig), body.event);
        return {};
      case "/__fake/ask":
        return ask(body);
      case "/__fake/answer":
        setApproval(world.approvals.find((a) => a.id === body.id), { answeredAt: now(), ...body.patch });
        return {};
      case "/__fake/control":
        change(rigOf(body.rig), { control: body.holder ? { holder: body.holder, since: now() } : undefined });
        return {};
      case "/__fake/audit":
        for (const row of body.rows) audit(rigOf(body.rig), row);
        return {};
      case "/__fake/close":
        close(rigOf(body.rig), body.reason);
        return {};
      case "/__fake/state":
        return { rigs: [...world.rigs.values()], approvals: world.approvals, answers: world.answers ?? [], viewers: world.viewers, takers: world.takers ?? [], typed: world.typed, sockets: world.sockets.size, streams: world.streams.size };
      default:
        return undefined;
    }
  };

  const types = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2" };
  const page = (res, path) => {
    let file = join(dist, normalize(path));
    if (!file.startsWith(dist) || !existsSync(file) || !statSync(file).isFile()) file = join(dist, "index.html");
    res.writeHead(200, { "Content-Type": types[extname(file)] ?? "application/octet-stream", "Content-Security-Policy": CSP, "X-Content-Type-Options": "nosniff" });
    createReadStream(file).pipe(res);
  };
  const signedIn = (req) => open || world.sessions.has(/rigs_session=([^;]+)/.exec(req.headers.cookie ?? "")?.[1]);
  const refuse = (res, err) => {
    const body = err instanceof Refusal ? err.body : { detail: String(err), code: "internal", status: 500 };
    res.writeHead(body.status, { "Content-Type": "application/problem+json" });
    res.end(JSON.stringify(body));
  };

  const server = http.createServer(async (req, res) => {
    const url = new URL(req.url, "http://fake");
    try {
      const chunks = [];
      for await (const c of req) chunks.push(c);
      const body = chunks.length ? JSON.parse(Buffer.concat(chunks)) : {};
      if (url.pathname.startsWith("/__fake/")) {
        const answer = fakeControl(url, body);
        res.writeHead(answer ? 200 : 404, { "Content-Type": "application/json" });
        return void res.end(JSON.stringify(answer ?? {}));
      }
      if (world.offline) return void req.socket.destroy();
      if (url.pathname === "/signin") {
        if (!world.codes.delete(url.searchParams.get("code"))) throw new Refusal("unauthenticated", "this link cannot be used: it has been used or has expired: rigs signin prints another");
        const id = randomBytes(16).toString("hex");
        world.sessions.add(id);
        res.writeHead(303, { Location: "/", "Set-Cookie": `rigs_session=${id}; HttpOnly; SameSite=Strict; Path=/` });
        return void res.end();
      }
      if (!url.pathname.startsWith("/v1/")) return void page(res, url.pathname);
      if (!signedIn(req)) throw new Refusal("unauthenticated", "not signed in: open a sign-in link: rigs signin prints one");
      await route(req, res, url, body);
    } catch (err) {
      if (res.headersSent) res.destroy();
      else refuse(res, err);
    }
  });
  const wss = new WebSocketServer({ noServer: true });
  server.on("upgrade", (req, socket, head) => {
    const m = /^\/v1\/rigs\/([^/]+)\/terminal$/.exec(new URL(req.url, "http://fake").pathname);
    const r = m && world.rigs.get(m[1]);
    if (world.offline || !signedIn(req) || !r || r.phase !== "ready") return void socket.destroy();
    wss.handleUpgrade(req, socket, head, (ws) => attach(ws, r));
  });
  await new Promise((ok, bad) => server.listen(port, "127.0.0.1", ok).once("error", bad));
  return {
    port: server.address().port,
    world,
    stop: () =>
      new Promise((ok) => {
        for (const s of world.sockets) s.terminate();
        server.close(() => ok());
        server.closeAllConnections();
      }),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const i = process.argv.indexOf("--port");
  const { port } = await start({ port: i > 0 ? Number(process.argv[i + 1]) : 7979, open: !process.argv.includes("--signin") });
  process.stdout.write(`fake server: http://127.0.0.1:${port}/\n`);
}
