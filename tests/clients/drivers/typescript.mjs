// Drives the client of the TypeScript SDK, of its first line or its second: `node typescript.mjs one|two`.
//
// Commands come on stdin, what came of them goes to stdout, as JSON lines; the first line is the job.

import process from "node:process";
import { createInterface } from "node:readline";

const line = process.argv[2];

/** Both lines of the SDK, with the same few functions. */
const LINES = {
  async one() {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    const { StreamableHTTPClientTransport } = await import(
      "@modelcontextprotocol/sdk/client/streamableHttp.js"
    );
    const types = await import("@modelcontextprotocol/sdk/types.js");
    return {
      make: (info, capabilities) => new Client(info, { capabilities }),
      stdio: (options) => new StdioClientTransport(options),
      http: (url) => new StreamableHTTPClientTransport(url),
      answer: (client, name, reply) => client.setRequestHandler(types[`${name}RequestSchema`], reply),
      call: (client, params, options) => client.callTool(params, undefined, options),
    };
  },
  async two() {
    const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    const methods = {
      ListRoots: "roots/list",
      CreateMessage: "sampling/createMessage",
      Elicit: "elicitation/create",
    };
    const modes = { legacy: "legacy", modern: { pin: "2026-07-28" } };
    return {
      make: (info, capabilities, era) =>
        new Client(info, { capabilities, versionNegotiation: { mode: modes[era] } }),
      stdio: (options) => new StdioClientTransport(options),
      http: (url) => new StreamableHTTPClientTransport(url),
      answer: (client, name, reply) => client.setRequestHandler(methods[name], reply),
      call: (client, params, options) => client.callTool(params, options),
    };
  },
};

const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
const sdk = await LINES[line]();
const calls = new Map();
let job, client;
let rootsAsked = () => {};

const commands = {
  async call({ id, tool, arguments: given }) {
    const aborting = new AbortController();
    calls.set(id, aborting);
    const onprogress = ({ progress, total, message }) =>
      say({ progress_of: id, report: [progress, total ?? null, message ?? null] });
    const options = { signal: aborting.signal, onprogress };
    const result = await sdk.call(client, { name: tool, arguments: given }, options);
    return { text: result.content[0].text, is_error: result.isError === true };
  },
  async cancel({ call }) { calls.get(call).abort("enough"); },
  async roots({ roots }) {
    job.roots = roots;
    const asked = new Promise((resolve) => { rootsAsked = resolve; });
    if (job.era === "legacy") await client.sendRootsListChanged();
    if (job.is_overtaken) await asked;
  },
  resources: async () => (await client.listResources()).resources.map(({ uri }) => uri),
  read: async ({ uri }) => (await client.readResource({ uri })).contents[0].text,
  prompts: async () => (await client.listPrompts()).prompts.map(({ name }) => name),
  prompt: async ({ name }) => (await client.getPrompt({ name })).messages[0].content.text,
  complete: async ({ prompt, argument, value }) => {
    const ref = { type: "ref/prompt", name: prompt };
    return (await client.complete({ ref, argument: { name: argument, value } })).completion.values;
  },
};

async function connect() {
  client = sdk.make(
    { name: "typescript", version: "1" },
    { roots: { listChanged: true }, sampling: {}, elicitation: { form: {}, url: {} } },
    job.era,
  );
  sdk.answer(client, "ListRoots", () => {
    rootsAsked();
    return { roots: job.roots.map((uri) => ({ uri })) };
  });
  sdk.answer(client, "CreateMessage", () => (
    { role: "assistant", content: { type: "text", text: job.words }, model: "none" }
  ));
  sdk.answer(client, "Elicit", ({ params }) => (
    { action: "accept", ...(params.mode !== "url" && { content: job.form }) }
  ));
  const [command, ...args] = Array.isArray(job.target) ? job.target : [];
  await client.connect(
    command ? sdk.stdio({ command, args, env: job.env }) : sdk.http(new URL(job.target)),
  );
}

const told = (error) => ({ error: `${error?.name}: ${error?.message ?? error}` });

for await (const text of createInterface({ input: process.stdin })) {
  const command = JSON.parse(text);
  if (!client) {
    job = command;
    await connect().then(() => say({ id: 0, result: null }), (error) => say({ id: 0, ...told(error) }));
  } else {
    commands[command.do](command).then(
      (result) => say({ id: command.id, result: result ?? null }),
      (error) => { console.error(error); say({ id: command.id, ...told(error) }); },
    );
  }
}
await client?.close();
process.exit(0);
