// A client made with the TypeScript SDK, of either line, that logs in and calls a tool.
//
// `node oauth_client.mjs JSON`: what to do is in the argument; what came of it goes to stdout. The
// person's browser is a part of it: it says yes to the hub's question, and logs in as `name`.

import process from "node:process";

const { line, era, url, name, folder } = JSON.parse(process.argv[2]);
const CALLBACK = "http://127.0.0.1:9/callback";

const LINES = {
  async one() {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await import(
      "@modelcontextprotocol/sdk/client/streamableHttp.js"
    );
    const { ListRootsRequestSchema } = await import("@modelcontextprotocol/sdk/types.js");
    return {
      client: (info, capabilities) => new Client(info, { capabilities }),
      transport: (options) => new StreamableHTTPClientTransport(new URL(url), options),
      answerRoots: (client, reply) => client.setRequestHandler(ListRootsRequestSchema, reply),
      finish: (transport, answer) => transport.finishAuth(answer.get("code")),
    };
  },
  async two() {
    const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const mode = era === "modern" ? { pin: "2026-07-28" } : "legacy";
    return {
      client: (info, capabilities) =>
        new Client(info, { capabilities, versionNegotiation: { mode } }),
      transport: (options) => new StreamableHTTPClientTransport(new URL(url), options),
      answerRoots: (client, reply) => client.setRequestHandler("roots/list", reply),
      finish: (transport, answer) => transport.finishAuth(answer),
    };
  },
};

/** Follow a login to its end, as a browser does; return what came back to the client. */
const browse = async (start) => {
  const cookies = {};
  const get = async (place, options = {}) => {
    const host = new URL(place).host;
    const cookie = Object.entries(cookies[host] ?? {}).map((pair) => pair.join("=")).join("; ");
    const headers = { ...options.headers, cookie };
    const response = await fetch(place, { ...options, headers, redirect: "manual" });
    for (const one of response.headers.getSetCookie()) {
      const [key, value] = one.split(";")[0].split(/=(.*)/s);
      cookies[host] = { ...cookies[host], [key]: value };
    }
    return response;
  };
  let place = String(start);
  while (!place.startsWith(CALLBACK)) {
    const hinted = place.includes("/auth?") ? `${place}&login_hint=${name}` : place;
    let response = await get(hinted);
    if (response.status === 200) {
      const ticket = (await response.text()).match(/name="ticket" value="([^"]+)"/)[1];
      const page = new URL(place);
      response = await get(`${page.origin}${page.pathname}`, {
        method: "POST",
        headers: { origin: page.origin },
        body: new URLSearchParams({ ticket, answer: "allow" }),
      });
    }
    place = new URL(response.headers.get("location"), place).href;
  }
  return new URL(place).searchParams;
};

const kept = {};
let answer;
const provider = {
  redirectUrl: CALLBACK,
  clientMetadata: {
    client_name: "test",
    redirect_uris: [CALLBACK],
    grant_types: ["authorization_code", "refresh_token"],
    token_endpoint_auth_method: "none",
  },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  codeVerifier: () => kept.verifier,
  redirectToAuthorization: async (place) => { answer = await browse(place); },
};

const sdk = await LINES[line]();
const made = () => {
  const client = sdk.client({ name: "test", version: "1" }, { roots: {} });
  sdk.answerRoots(client, () => ({ roots: [{ uri: `file://${folder}` }] }));
  return client;
};
const first = sdk.transport({ authProvider: provider });
const refused = await made().connect(first).then(() => null, (error) => error.constructor.name);
await sdk.finish(first, answer);
const client = made();
await client.connect(sdk.transport({ authProvider: provider }));
const { content } = await client.callTool({ name: "remember", arguments: { text: name } });
await client.close();
console.log(JSON.stringify({ refused, said: content[0].text, type: kept.tokens.token_type }));
