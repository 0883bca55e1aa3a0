import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const dist = fileURLToPath(new URL("./dist/", import.meta.url));

/** Emptying dist removes the file that keeps the folder in the repository (package web embeds it), so it is put back. */
const keepFolder = {
  name: "rigs:gitkeep",
  apply: "build" as const,
  closeBundle() {
    writeFileSync(`${dist}.gitkeep`, "");
  },
};

const api = process.env["RIGS_DEV_API"] ?? "http://127.0.0.1:7979";

export default defineConfig({
  plugins: [react(), keepFolder],
  build: {
    outDir: "dist",
    emptyOutDir: true,
    // The server's content security policy has no data: sources.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 900,
  },
  server: {
    host: "127.0.0.1",
    proxy: {
      "/v1": { target: api, ws: true },
      "/signin": { target: api },
      "/__fake": { target: api },
    },
  },
  test: {
    projects: [
      { test: { name: "unit", include: ["src/**/*.test.ts"], environment: "node" } },
      {
        test: {
          name: "browser",
          include: ["browser/**/*.test.ts"],
          environment: "node",
          testTimeout: 60_000,
          hookTimeout: 60_000,
          fileParallelism: false,
        },
      },
      // Needs a server: test/web starts one.
      { test: { name: "server", include: ["browser/server.e2e.ts"], environment: "node", testTimeout: 900_000, hookTimeout: 60_000 } },
    ],
  },
});
