import { describe, expect, it } from "vitest";
import type { AuditRow } from "./api/types";
import { actionWords, detailText, fold, inputWords, MAX_ROWS, mergeRows, noRows, type Entry } from "./audit";

const row = (seq: number, r: Partial<AuditRow> = {}): AuditRow => ({
  seq,
  time: new Date(1_700_000_000_000 + seq * 1000).toISOString(),
  principal: "anna",
  kind: "person",
  action: "exec",
  outcome: "allowed",
  hash: "",
  ...r,
});
const seqs = (rows: readonly AuditRow[]) => rows.map((r) => r.seq);

describe("mergeRows", () => {
  it("joins pages at either end, each row once", () => {
    const log = mergeRows(mergeRows(noRows, [row(3), row(4)]), [row(4), row(5), row(1), row(2)]);
    expect(seqs(log.rows)).toEqual([1, 2, 3, 4, 5]);
    expect(log.hole).toBe(false);
  });
  it("keeps no row beyond a hole, and says that there is one", () => {
    const log = mergeRows(mergeRows(noRows, [row(1), row(2)]), [row(5)]);
    expect(seqs(log.rows)).toEqual([1, 2]);
    expect(log.hole).toBe(true);
    expect(mergeRows(log, [row(3), row(4), row(5)])).toEqual({ rows: [1, 2, 3, 4, 5].map((n) => row(n)), hole: false, start: true });
  });
  it("knows whether it begins where the log does, which is not always with row 1", () => {
    expect(mergeRows(noRows, [row(3), row(4)]).start).toBeUndefined();
    expect(mergeRows({ rows: [row(3)], hole: false, start: true }, [row(4)]).start).toBe(true);
  });
  it("is bounded", () => {
    const many = Array.from({ length: MAX_ROWS + 10 }, (_, i) => row(i + 1));
    expect(mergeRows(noRows, many).rows).toHaveLength(MAX_ROWS);
    expect(mergeRows(noRows, many).rows.at(-1)?.seq).toBe(MAX_ROWS + 10);
    expect(mergeRows(noRows, many, "oldest").rows[0]?.seq).toBe(1);
  });
});

describe("fold", () => {
  it("puts an action and its end in one line, newest first", () => {
    const entries = fold([row(1), row(2, { action: "take" }), row(3, { ref: 1, outcome: "done" })]);
    expect(entries.map((e) => e.seq)).toEqual([2, 1]);
    expect(entries[1]).toMatchObject({ kind: "action", end: { seq: 3, outcome: "done" } });
  });
  it("shows an end whose beginning is not there", () => {
    expect(fold([row(9, { ref: 2, outcome: "backendFailure" })])).toMatchObject([{ kind: "action", row: { seq: 9 } }]);
  });
  it("collapses input of one hand, not of two, nor across other actions, refusals or pauses", () => {
    const key = (seq: number, r: Partial<AuditRow> = {}) => row(seq, { action: "terminal.input", ...r });
    const words = (rows: AuditRow[]) => fold(rows).map((e) => (e.kind === "input" ? `${inputWords(e)} ${e.first.principal} ${e.first.outcome}` : e.row.action)).reverse();
    expect(words([key(1), key(2), key(3)])).toEqual(["3 key presses anna allowed"]);
    expect(words([key(1), key(2, { principal: "bert" })])).toEqual(["1 key press anna allowed", "1 key press bert allowed"]);
    expect(words([key(1), row(2, { action: "park" }), key(3)])).toEqual(["1 key press anna allowed", "park", "1 key press anna allowed"]);
    expect(words([key(1), key(2, { outcome: "controlHeld" })])).toEqual(["1 key press anna allowed", "1 key press anna controlHeld"]);
    expect(words([key(1), key(500)])).toHaveLength(2);
    expect(words([key(1, { detail: { events: "40" } }), key(2)])).toEqual(["41 key presses anna allowed"]);
  });
  it("counts bytes where something was pasted, keys where each is small", () => {
    const typed = (...bytes: number[]) => fold(bytes.map((n, i) => row(i + 1, { action: "terminal.input", detail: { bytes: String(n), hmac: "ab" } }))).map((e) => (e.kind === "input" ? inputWords(e) : ""));
    expect(typed(47)).toEqual(["47 bytes typed"]);
    expect(typed(1, 3, 1)).toEqual(["3 key presses"]);
    expect(typed(1, 47)).toEqual(["48 bytes typed"]);
  });
  it("does not lose the failure of a key press that had been allowed", () => {
    const entries: Entry[] = fold([row(1, { action: "terminal.input" }), row(2, { action: "terminal.input", ref: 1, outcome: "backendFailure" })]);
    expect(entries).toHaveLength(2);
  });
});

it("has words for actions, none of an object's own", () => {
  expect(actionWords("take")).toBe("took control");
  expect(actionWords("park", false)).toBe("park the machine");
  expect(actionWords("constructor")).toBe("constructor");
});

it("leaves hashes out of the details", () => expect(detailText(row(1, { detail: { length: "4", hash: "ab", argv: "ls -l" } }))).toBe("length: 4, argv: ls -l"));
