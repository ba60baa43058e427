// An OpenID provider:  provider.mjs PORT
//
// Each client's credentials give a JWT as access token, for the audience "tidegate", signed with RS256. A line on
// standard input, "rotate", gives it other keys, and has it sign with ES256; it says "rotated N" when it has them.
// After "withdraw" its list of keys is empty; it says "withdrawn".

import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import Provider from "oidc-provider";

const issuer = `http://127.0.0.1:${process.argv[2]}`;
const people = ["dave", "carol", "operator"];
let generation = 0;

function key(kind, options, alg) {
  const { privateKey } = generateKeyPairSync(kind, options);
  return { ...privateKey.export({ format: "jwk" }), use: "sig", alg, kid: `${alg}-${generation}` };
}

function provider(alg) {
  generation += 1;
  const jwks = { keys: [key("rsa", { modulusLength: 2048 }, "RS256"), key("ec", { namedCurve: "P-256" }, "ES256")] };
  const about = {
    clients: people.map((name) => ({
      client_id: name,
      client_secret: name,
      grant_types: ["client_credentials"],
      redirect_uris: [],
      response_types: [],
    })),
    jwks,
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => "urn:tidegate",
        getResourceServerInfo: () => ({
          scope: "",
          audience: "tidegate",
          accessTokenFormat: "jwt",
          accessTokenTTL: 3600,
          jwt: { sign: { alg } },
        }),
      },
    },
    extraTokenClaims: (_, token) => ({
      sub: token.clientId,
      realm_access: { roles: token.clientId === "operator" ? ["service"] : [] },
    }),
  };
  return new Provider(issuer, about).callback();
}

let answer = provider("RS256");
createServer((request, response) => answer(request, response)).listen(Number(process.argv[2]), "127.0.0.1", () => {
  console.log("serving");
});
createInterface({ input: process.stdin })
  .on("line", (line) => {
    if (line === "withdraw") {
      const before = answer;
      answer = (request, response) =>
        request.url === "/jwks" ? response.end('{"keys": []}') : before(request, response);
      console.log("withdrawn");
      return;
    }
    answer = provider("ES256");
    console.log(`rotated ${generation}`);
  })
  .on("close", () => process.exit(0));
