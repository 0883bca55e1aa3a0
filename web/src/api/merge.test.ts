import { describe, expect, it } from "vitest";
import { emptyLog, MAX_LOG, mergeLog, mergeRig } from "./merge";
import type { EgressEvent, Rig } from "./types";

const rig = (id: string, phase: Rig["phase"], openedAt = "2026-01-01T00:00:00Z"): Rig => ({ id, phase, openedAt }) as Rig;
const line = (seq: number, reason = "admitted"): EgressEvent => ({ seq, time: "", verdict: "allow", reason, protocol: "tcp" });

describe("mergeRig", () => {
  it("adds, replaces and takes out what is closed", () => {
    let list = mergeRig([], rig("a", "provisioning"));
    list = mergeRig(list, rig("b", "ready", "2026-01-02T00:00:00Z"));
    expect(list.map((r) => r.id)).toEqual(["b", "a"]);
    list = mergeRig(list, rig("a", "failed"));
    expect(list.map((r) => r.phase)).toEqual(["ready", "failed"]);
    list = mergeRig(list, rig("a", "closed"));
    expect(list.map((r) => r.id)).toEqual(["b"]);
  });
  it("keeps the memory that was measured while the machine runs, as events name none", () => {
    const measured = { ...rig("a", "ready"), residentMB: 310 };
    expect(mergeRig([measured], rig("a", "ready"))[0]?.residentMB).toBe(310);
    expect(mergeRig([measured], { ...rig("a", "ready"), residentMB: 290 })[0]?.residentMB).toBe(290);
    expect(mergeRig([measured], rig("b", "ready", "2026-01-02T00:00:00Z"))[0]).not.toHaveProperty("residentMB");
    expect(mergeRig([measured], rig("a", "parked"))[0]).not.toHaveProperty("residentMB");
  });
  it("leaves the list it was given alone", () => {
    const list = [rig("a", "ready")];
    mergeRig(list, rig("a", "closed"));
    expect(list).toHaveLength(1);
  });
});

describe("mergeLog", () => {
  it("puts lines in order, each once, the newer telling of one kept", () => {
    const log = mergeLog(mergeLog(emptyLog, [line(3), line(1)]), [line(2), line(3, "closed")]);
    expect(log.events.map((e) => [e.seq, e.reason])).toEqual([[1, "admitted"], [2, "admitted"], [3, "closed"]]);
  });
  it("keeps the newest and counts what it drops", () => {
    const log = mergeLog({ events: [line(1)], lost: 2 }, Array.from({ length: MAX_LOG + 5 }, (_, i) => line(i + 2)), 1);
    expect(log.events).toHaveLength(MAX_LOG);
    expect(log.events.at(-1)?.seq).toBe(MAX_LOG + 6);
    expect(log.lost).toBe(2 + 1 + 6);
  });
});
