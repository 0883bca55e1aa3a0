import type { QueryClient } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { actions, putRig } from "../api/queries";

/**
 * The machines that are being parked from this page. An open terminal counts as use, and a machine in use is not parked:
 * so the page lets go of its own terminal first, and takes it up again if the machine was not parked after all.
 */
const parking = new Set<string>();
const listeners = new Set<() => void>();
const changed = () => {
  for (const listener of listeners) listener();
};

export const useParking = (id: string): boolean =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
    () => parking.has(id),
  );

/** How often, and how far apart in milliseconds, the server is asked whether it has noticed that the terminal is closed. */
const ASK = 20;
const APART = 150;
const pause = () => new Promise((ok) => setTimeout(ok, APART));

export async function park(client: QueryClient, id: string): Promise<void> {
  parking.add(id);
  changed();
  try {
    for (let i = 0; i < ASK && ((await actions.rig(id)).inUse ?? []).length > 0; i++) await pause();
    // Whatever else uses the machine, the server says so.
    let rig = await actions.park(id);
    // Attaching would wake it: not before its new phase is known.
    for (let i = 0; i < ASK && rig.phase === "ready"; i++) {
      await pause();
      rig = await actions.rig(id);
    }
    putRig(client, rig);
  } finally {
    parking.delete(id);
    changed();
  }
}
