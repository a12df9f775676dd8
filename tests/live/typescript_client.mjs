// A client made with the TypeScript SDK, of either line, that uses all that a hub offers.
//
// `node typescript_client.mjs JSON`: what to do is in the argument; what came of it goes to stdout,
// by server.

import process from "node:process";

const { line, era, target, env, roots, outside, servers } = JSON.parse(process.argv[2]);
const LOG_LEVEL = "io.modelcontextprotocol/logLevel";

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
      hear: (client, name, heard) =>
        client.setNotificationHandler(types[`${name}NotificationSchema`], heard),
      call: (client, params, options) => client.callTool(params, undefined, options),
      list: (client, what, cursor) => client[`list${what}`](cursor ? { cursor } : {}),
    };
  },
  async two() {
    const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    const methods = {
      ListRoots: "roots/list",
      CreateMessage: "sampling/createMessage",
      Elicit: "elicitation/create",
      LoggingMessage: "notifications/message",
      ResourceUpdated: "notifications/resources/updated",
      ToolListChanged: "notifications/tools/list_changed",
    };
    const mode = era === "modern" ? { pin: "2026-07-28" } : "legacy";
    return {
      make: (info, capabilities) =>
        new Client(info, { capabilities, versionNegotiation: { mode } }),
      stdio: (options) => new StdioClientTransport(options),
      http: (url) => new StreamableHTTPClientTransport(url),
      answer: (client, name, reply) => client.setRequestHandler(methods[name], reply),
      hear: (client, name, heard) => client.setNotificationHandler(methods[name], heard),
      call: (client, params, options) => client.callTool(params, options),
      list: (client, what, cursor) => client[`list${what}`](cursor ? { cursor } : undefined),
    };
  },
};

const sdk = await LINES[line]();
const client = sdk.make(
  { name: "typescript", version: "1" },
  { roots: { listChanged: true }, sampling: {}, elicitation: { form: {}, url: {} } },
);
let server, uri, found;
let moved = () => {};
const until = async (holds) => {
  while (!holds()) await new Promise((resolve) => { moved = resolve; });
};

sdk.answer(client, "ListRoots", () => ({ roots }));
sdk.answer(client, "CreateMessage", (request) => {
  found.asked.push(["sample", request.params.maxTokens]);
  return { role: "assistant", content: { type: "text", text: "own words" }, model: "none" };
});
sdk.answer(client, "Elicit", (request) => {
  found.asked.push([request.params.mode ?? "form", request.params.message]);
  return request.params.mode === "url"
    ? { action: "accept" }
    : { action: "accept", content: { n: 7 } };
});
sdk.hear(client, "LoggingMessage", ({ params }) => { found.logs.push(params.level); moved(); });
sdk.hear(client, "ResourceUpdated", ({ params }) => { found.updated.push(params.uri); moved(); });
sdk.hear(client, "ToolListChanged", () => { found.changed += 1; moved(); });

const call = async (name, args = {}, options = {}, meta = undefined) =>
  sdk.call(
    client,
    { name: `${server}__${name}`, arguments: args, ...(meta && { _meta: meta }) },
    options,
  );
const text = (result) => result.content[0].text;

/** List everything; again from the start where the listing changes between two pages. */
const every = async (what, field) => {
  for (;;) {
    try {
      return await pages(what, field);
    } catch (error) {
      if (!error.message.includes("Invalid cursor: the listing has changed")) throw error;
    }
  }
};

/** List everything, page by page where the SDK does not follow cursors itself. */
const pages = async (what, field) => {
  const names = [];
  let cursor, pages = 0;
  do {
    const page = await sdk.list(client, what, cursor);
    names.push(...page[field].map((entry) => entry.name));
    cursor = page.nextCursor;
    pages += 1;
  } while (cursor);
  return { names, pages };
};

const steps = {
  async lists() {
    found.tools = await every("Tools", "tools");
    // The first list does not wait for a server that is slow to start.
    while (!found.tools.names.includes(`${server}__touch`)) {
      await new Promise((resolve) => { setTimeout(resolve, 100); });
      found.tools = await every("Tools", "tools");
    }
    found.resources = (await every("Resources", "resources")).names;
    found.templates = (await every("ResourceTemplates", "resourceTemplates")).names;
    found.prompts = (await every("Prompts", "prompts")).names;
    found.read = (await client.readResource({ uri })).contents[0].text;
    found.prompt = (await client.getPrompt({ name: `${server}__first` })).messages[0].content.text;
  },
  async guard() {
    const refused = await call("read_file", { path: outside });
    found.refused = [refused.isError, text(refused)];
    found.roots = JSON.parse(text(await call("ask_roots"))).roots.map((root) => root.uri);
  },
  async questions() {
    for (const name of ["ask_model", "ask_form", "ask_url"]) {
      found[name] = JSON.parse(text(await call(name)));
    }
  },
  async progress() {
    // The SDK reports rounds of its own, too.
    const onprogress = ({ progress, total, message }) => {
      if (message?.startsWith("step")) found.progress.push([progress, total]);
    };
    found.steps = text(await call("steps", {}, { onprogress }));
  },
  async cancel() {
    const key = `${line} ${era} ${process.pid}`;
    const aborting = new AbortController();
    const onprogress = ({ message }) => { if (message === "waiting") aborting.abort("enough"); };
    const waiting = call("wait", { key }, { signal: aborting.signal, onprogress });
    found.aborted = await waiting.then(() => false, () => true);
    found.cancelled = text(await call("cancelled", { key }));
  },
  async logs() {
    if (era === "legacy") await client.setLoggingLevel("warning");
    await call("log", { key: "k" }, {}, era === "modern" ? { [LOG_LEVEL]: "warning" } : undefined);
    await until(() => found.logs.length > 0);
  },
  async changes() {
    let subscription;
    if (era === "modern") {
      subscription = await client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] });
    } else {
      await client.subscribeResource({ uri });
    }
    await call("touch");
    await until(() => found.updated.length > 0);
    const name = `added_by_typescript_${process.pid}`;
    await call("add", { kind: "tool", name });
    await until(() => found.changed > 0);
    const isShown = async () =>
      (await every("Tools", "tools")).names.includes(`${server}__${name}`);
    found.shown = await isShown();
    // A server that has only just started may be told of first. (The modern client caches lists.)
    while (era === "legacy" && !found.shown) {
      const seen = found.changed;
      await until(() => found.changed > seen);
      found.shown = await isShown();
    }
    await (subscription ? subscription.close() : client.unsubscribeResource({ uri }));
  },
};

const transport = Array.isArray(target)
  ? sdk.stdio({ command: target[0], args: target.slice(1), env, stderr: "ignore" })
  : sdk.http(new URL(target));
await client.connect(transport);
const byServer = {};
for (server of servers) {
  uri = `era://${server}/one`;
  found = { asked: [], logs: [], changed: 0, updated: [], progress: [] };
  found.server = client.getServerVersion()?.name;
  found.version = client.getNegotiatedProtocolVersion?.();
  for (const [name, perform] of Object.entries(steps)) {
    try {
      await perform();
    } catch (error) {
      found.failed = [...(found.failed ?? []), `${name}: ${error.stack}`];
    }
  }
  byServer[server] = found;
}
// An exit does not wait for what does not fit into the pipe.
await new Promise((resolve) => { process.stdout.write(JSON.stringify(byServer), resolve); });
await client.close();
process.exit(0);
