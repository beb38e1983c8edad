// A provider of OpenID Connect (npm's `oidc-provider`, certified) for tests of signing in: whoever types a name is it.
//
// node provider.mjs PORT CONSOLE_ADDRESS ACCESS_TOKEN_SECONDS
//
// A line on stdout for each grant: `ready`, `authorization_code`, `refresh_token`.
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import Provider from "oidc-provider";

const [port, console_address, seconds] = process.argv.slice(2);
const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const key = { ...privateKey.export({ format: "jwk" }), kid: "one", use: "sig", alg: "RS256" };

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: "braid-console",
      token_endpoint_auth_method: "none",
      grant_types: ["authorization_code", "refresh_token"],
      redirect_uris: [`${console_address}/oidc/callback`],
      post_logout_redirect_uris: [`${console_address}/`],
    },
  ],
  cookies: { keys: ["of tests"] },
  jwks: { keys: [key] },
  ttl: { AccessToken: Number(seconds), Grant: 3600, IdToken: 3600, Interaction: 3600, RefreshToken: 3600, Session: 3600 },
  issueRefreshToken: async () => true,
  features: {
    resourceIndicators: {
      enabled: true,
      defaultResource: () => "urn:braid",
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        audience: "braid",
        scope: "openid",
        accessTokenFormat: "jwt",
        accessTokenTTL: Number(seconds),
        jwt: { sign: { alg: "RS256" } },
      }),
    },
  },
});
provider.on("grant.success", (context) => console.log(context.oidc.params.grant_type));
provider.on("grant.error", (context, error) => console.error(error.message, error.error_detail ?? ""));
provider.on("server_error", (context, error) => console.error(error));
createServer(provider.callback()).listen(Number(port), "127.0.0.1", () => console.log("ready"));
