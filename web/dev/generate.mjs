// `npm run generate`: TypeScript types of the server's API from its OpenAPI description.
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import openapi, { astToString } from "openapi-typescript";

const source = new URL("../../client/openapi.json", import.meta.url);
const target = fileURLToPath(new URL("../src/api/schema.ts", import.meta.url));

const ast = await openapi(source);
writeFileSync(target, `// Generated from client/openapi.json by "npm run generate"; do not edit.\n\n${astToString(ast)}`);
