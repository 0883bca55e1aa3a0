import type { CloseReason, Phase } from "../api/types";
import type { Tone } from "../ui/Notes";

export const phaseTone = (phase: Phase): Tone =>
  ({ provisioning: "info", ready: "good", parked: "warn", closing: "mute", closed: "mute", failed: "bad" } as const)[phase];

export const phaseWord = (phase: Phase): string =>
  ({ provisioning: "starting", ready: "running", parked: "parked", closing: "closing", closed: "closed", failed: "failed" })[phase];

export const closeWords: Record<CloseReason, string> = {
  requested: "somebody closed it",
  idleTimeout: "nobody used it for twice its idle window",
  ttlExpired: "its time was up",
  memoryEvicted: "the server needed its memory for another machine",
  conversationEnded: "its space was deleted",
  workspaceGone: "its workspace was deleted",
  serverShutdown: "the server was stopped",
  backendFailure: "the machine died",
};
