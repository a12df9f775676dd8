// An authorization server for tests: oidc-provider, which logs in whom `login_hint` names, or `anna`.
// It gives codes for other devices, to be asked about each second.
// Arguments: the resource whose tokens it makes, their scopes, how many seconds they last (60), and
// their format: `jwt` or `opaque`. The client `hub` may ask about opaque tokens, and people may
// log in there through the hub.
// It prints its issuer. `/counts` says how many tokens it gave and refused for which grants, and
// `/forget` makes it forget all that it knows of its clients' grants.
import { createServer } from "node:http";
import Provider from "oidc-provider";

const [resource, scope, seconds = "60", format = "jwt"] = process.argv.slice(2);
const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    scopes: ["openid", "offline_access", ...scope.split(" ")],
    clients: [
      {
        client_id: "hub",
        client_secret: "of the hub",
        redirect_uris: [`${resource}/oauth/callback`],
        response_types: ["code"],
        grant_types: ["authorization_code", "refresh_token"],
      },
    ],
    features: {
      devInteractions: { enabled: false },
      registration: { enabled: true },
      introspection: { enabled: true, allowedPolicy: (_, client) => client.clientId === "hub" },
      revocation: { enabled: true },
      deviceFlow: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => resource,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope,
          audience: resource,
          accessTokenFormat: format,
          accessTokenTTL: Number(seconds),
          ...(format === "jwt" && { jwt: { sign: { alg: "RS256" } } }),
        }),
      },
    },
    interactions: { url: (_, interaction) => `/login/${interaction.uid}` },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  });
  const counts = { given: {}, refused: {} };
  const count = (kind) => ({ oidc }) => {
    const grant = oidc.params?.grant_type;
    counts[kind][grant] = (counts[kind][grant] ?? 0) + 1;
  };
  provider.on("grant.success", count("given"));
  provider.on("grant.error", count("refused"));
  provider.on("device_authorization.success", (_, answer) => {
    answer.interval = 1;
  });
  const grants = new Set();
  provider.on("grant.saved", (grant) => grants.add(grant.jti));
  const callback = provider.callback();
  server.on("request", async (request, response) => {
    if (request.url === "/counts") return response.end(JSON.stringify(counts));
    if (request.url === "/forget") {
      for (const id of grants) await (await provider.Grant.find(id))?.destroy();
      return response.end();
    }
    if (!request.url.startsWith("/login/")) return callback(request, response);
    const { prompt, params, session } = await provider.interactionDetails(request, response);
    if (prompt.name === "login") {
      const login = { accountId: params.login_hint ?? "anna" };
      return provider.interactionFinished(request, response, { login });
    }
    const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    grant.addOIDCScope(`openid offline_access ${scope}`);
    grant.addResourceScope(resource, scope);
    const consent = { grantId: await grant.save() };
    return provider.interactionFinished(request, response, { consent });
  });
  console.log(`issuer ${issuer}`);
});
