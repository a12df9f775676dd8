// A modern client made with the TypeScript SDK whose calls run side by side, and ask.
//
// `node typescript_parallel.mjs URL NAME [aborts]`: what each call came to goes to stdout, as JSON.
// With `aborts`, it asks right after a call that it has cancelled, too.

import process from "node:process";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, name, aborts] = process.argv.slice(2);
const client = new Client(
  { name, version: "1" },
  {
    capabilities: { sampling: {}, elicitation: { form: {} } },
    versionNegotiation: { mode: { pin: "2026-07-28" } },
  },
);
client.setRequestHandler("elicitation/create", ({ params }) => ({
  action: "accept",
  content: { told: `${params.message} told by ${name}` },
}));
client.setRequestHandler("sampling/createMessage", ({ params }) => {
  const [{ content }] = params.messages;
  const { text } = Array.isArray(content) ? content[0] : content;
  const told = { type: "text", text: `${text} told by ${name}` };
  return { role: "assistant", content: told, model: "none" };
});

await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const call = async (tool, args, options) =>
  (await client.callTool({ name: tool, arguments: args }, options)).content[0].text;
const asking = (tool, mark) => call(tool, { mark, times: 2 });

const found = {};
const marks = ["elicit 1", "sample 1", "elicit 2", "sample 2"];
found.parallel = await Promise.all(marks.map((mark) => asking(mark.split(" ")[0], mark)));
[, found.beside] = await Promise.all([call("slow", { seconds: 1 }), asking("elicit", "beside")]);

if (aborts === "aborts") {
  const aborting = new AbortController();
  const slow = call("slow", {}, { signal: aborting.signal }).then(() => false, () => true);
  found.echo = await call("echo", { text: "there" });
  aborting.abort("enough");
  found.after = await asking("elicit", "after");
  found.aborted = await slow;
}

process.stdout.write(JSON.stringify(found));
await client.close();
process.exit(0);
