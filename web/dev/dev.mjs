// `npm run dev`: Vite with hot reload, in front of the fake server or, with RIGS_DEV_API=http://127.0.0.1:7878, of a real one.
import { createServer } from "vite";
import { start } from "./fake-server.mjs";

if (!process.env.RIGS_DEV_API) {
  const { port } = await start({ port: 0 });
  process.env.RIGS_DEV_API = `http://127.0.0.1:${port}`;
}
const server = await createServer();
await server.listen();
server.printUrls();
