// An authorization server for tests: oidc-provider, which logs in whom `login_hint` names.
// Arguments: the resource whose tokens it makes, and their scope. It prints its issuer.
import { createServer } from "node:http";
import Provider from "oidc-provider";

const [resource, scope] = process.argv.slice(2);
const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    scopes: ["openid", "offline_access", scope],
    features: {
      devInteractions: { enabled: false },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => resource,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope,
          audience: resource,
          accessTokenFormat: "jwt",
          accessTokenTTL: 60,
          jwt: { sign: { alg: "RS256" } },
        }),
      },
    },
    interactions: { url: (_, interaction) => `/login/${interaction.uid}` },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  });
  const callback = provider.callback();
  server.on("request", async (request, response) => {
    if (!request.url.startsWith("/login/")) return callback(request, response);
    const { prompt, params, session } = await provider.interactionDetails(request, response);
    if (prompt.name === "login") {
      const login = { accountId: params.login_hint };
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
