// A client made with the TypeScript SDK 1.x that calls a tool each time it is told to.
//
// `node typescript_restart.mjs JSON`; a line on stdin for each call, a line of JSON on stdout for
// each result. Nothing here deals with a session that is gone.

import process from "node:process";
import readline from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ListRootsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const { url, roots, path } = JSON.parse(process.argv[2]);
const client = new Client(
  { name: "typescript", version: "1" },
  { capabilities: { roots: { listChanged: true } } },
);
let asked = 0;
client.setRequestHandler(ListRootsRequestSchema, () => {
  asked += 1;
  return { roots };
});
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
for await (const _ of readline.createInterface({ input: process.stdin })) {
  const params = { name: "read_file", arguments: { path } };
  let said;
  try {
    said = (await client.callTool(params)).content[0].text;
  } catch (error) {
    said = `failed: ${error.message}`;
  }
  console.log(JSON.stringify({ said, asked }));
}
await client.close();
