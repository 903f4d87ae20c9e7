#!/usr/bin/env node
// An authorization server on loopback, made of oidc-provider, with faults on demand. The first line of its
// output says where it is: {"issuer", "port", "control"}. See settings.mjs for its flags and control.mjs for the rest.

import { generateKeyPair, randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { promisify } from "node:util";

import Provider, { errors } from "oidc-provider";

import { control } from "./control.mjs";
import { Faults } from "./faults.mjs";
import { Person } from "./person.mjs";
import { settings as read } from "./settings.mjs";
import { Store, adapter } from "./store.mjs";
import { Tokens } from "./tokens.mjs";

// A resource server that asks whether an opaque token is valid.
const RESOURCE_SERVER = {
  client_id: "resource-server",
  client_secret: "resource-server-secret",
  redirect_uris: [],
  response_types: [],
  grant_types: [],
};

const settings = read();
const store = new Store(settings.state, settings["reuse-grace-seconds"]);
const faults = new Faults();
const clock = { shift: 0 };

// The clock of this process can be shifted: oidc-provider reads it with Date.now.
const now = Date.now;
Date.now = () => now() + clock.shift * 1000;

const server = createServer();
const controlServer = createServer();
const listen = (listener, port) =>
  new Promise((resolve, reject) => {
    listener.once("error", reject);
    listener.listen(port, "127.0.0.1", () => resolve(listener.address().port));
  });
const port = await listen(server, settings.port);
const origin = `http://127.0.0.1:${port}`;
const issuer = (settings.issuer || origin) + settings.path;

const provider = new Provider(issuer, await configuration());
const person = new Person(provider, settings);
const tokens = new Tokens(store, now, settings["tell-secrets"]);
provider.use(async (context, next) => {
  await next();
  changeIssuerParameter(context);
});
provider.use(tokens.middleware);
provider.on("server_error", (_, error) => console.error(error));

const handle = provider.callback();
server.on("request", (request, response) => {
  serve(request, response).catch((error) => {
    console.error(error);
    if (!response.headersSent) response.writeHead(500);
    response.end();
  });
});
controlServer.on("request", control({ provider, store, faults, clock, person, tokens, now }));
const controlPort = await listen(controlServer, settings["control-port"]);
process.stdout.write(`${JSON.stringify({ issuer, port, control: `http://127.0.0.1:${controlPort}/control` })}\n`);

for (const signal of ["SIGTERM", "SIGINT"]) {
  process.on(signal, () => {
    store.close();
    process.exit(0);
  });
}

async function configuration() {
  const scopes = settings.scopes.split(" ");
  const { privateKey } = await store.kept("key", async () => {
    const pair = await promisify(generateKeyPair)("rsa", { modulusLength: 2048 });
    return { privateKey: { ...pair.privateKey.export({ format: "jwk" }), use: "sig", alg: "RS256", kid: "one" } };
  });
  const refresh = settings["refresh-tokens"];
  const documents = settings["client-documents"];
  return {
    adapter: adapter(store),
    clients: [RESOURCE_SERVER, ...settings.clients],
    clockTolerance: 0,
    cookies: { keys: [await store.kept("cookies", () => randomBytes(16).toString("hex"))] },
    jwks: { keys: [privateKey] },
    scopes: ["openid", "offline_access", ...scopes],
    // Those that a client of 2025-03-26 takes where there is no metadata.
    routes: {
      authorization: "/authorize",
      registration: "/register",
      introspection: "/introspect",
      revocation: "/revoke",
    },
    pkce: { required: () => true },
    rotateRefreshToken: settings.rotate,
    expiresWithSession: () => false,
    issueRefreshToken: (_, client, source) =>
      refresh !== "never" &&
      client.grantTypeAllowed("refresh_token") &&
      (refresh === "always" || source.scopes.has("offline_access")),
    findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
    loadExistingGrant: (context) =>
      context.oidc.result?.consent && context.oidc.provider.Grant.find(context.oidc.result.consent.grantId),
    interactions: { url: (_, interaction) => `${settings.path}/interaction/${interaction.uid}` },
    ttl: {
      AccessToken: settings["access-token-seconds"],
      ClientCredentials: settings["access-token-seconds"],
      RefreshToken: settings["refresh-token-seconds"],
      AuthorizationCode: settings["code-seconds"],
      DeviceCode: settings["device-seconds"],
      Grant: settings["refresh-token-seconds"],
      IdToken: settings["access-token-seconds"],
      Interaction: 600,
      Session: 600,
    },
    // Documents of clients are at https URLs that this machine does not have.
    fetch: async (url, options) => {
      const document = documents[String(url)];
      return document ? Response.json(document) : fetch(url, options);
    },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      deviceFlow: { enabled: true },
      introspection: { enabled: true },
      revocation: { enabled: true },
      registration: { enabled: settings.registration },
      clientIdMetadataDocument: { enabled: Object.keys(documents).length > 0, ack: "draft-02" },
      resourceIndicators: {
        enabled: settings.resources !== "none",
        defaultResource: (_, __, several) => {
          if (several) return several;
          if (settings["require-resource"]) throw new errors.InvalidTarget("resource is required");
          return undefined;
        },
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource) => {
          if (settings.resources !== "any" && !settings.resources.split(",").includes(resource)) {
            throw new errors.InvalidTarget(`unknown resource ${resource}`);
          }
          return {
            audience: resource,
            scope: settings.scopes,
            accessTokenTTL: settings["access-token-seconds"],
            accessTokenFormat: settings["token-format"],
            jwt: { sign: { alg: "RS256" } },
          };
        },
      },
    },
  };
}

async function serve(request, response) {
  const url = new URL(request.url, origin);
  const fault = faults.next(url.pathname.slice(settings.path.length));
  if (fault) {
    await tokens.noteFault(fault, request, url.pathname);
    if (!(await faults.apply(fault, request, response))) return;
  }
  const wellKnown = metadataPath(url.pathname);
  if (wellKnown === null) return void response.writeHead(404).end();
  if (wellKnown) {
    request.originalUrl = settings.path + wellKnown;
    request.url = wellKnown;
  } else if (!url.pathname.startsWith(`${settings.path}/`)) {
    return void response.writeHead(404).end();
  } else {
    request.originalUrl = request.url;
    request.url = request.url.slice(settings.path.length);
  }
  const path = url.pathname.slice(settings.path.length);
  if (path.startsWith("/interaction/")) return person.interact(request, response);
  if (path === "/device" && request.method === "GET" && url.searchParams.has("user_code")) {
    const outcome = await person.confirmDevice(url.searchParams.get("user_code"), request);
    return void response.writeHead(200, { "content-type": "text/plain" }).end(`${outcome}\n`);
  }
  if (path === "/authorize") await completeScopes(url, request);
  return handle(request, response);
}

// The path at which oidc-provider has the metadata; `null` if this authorization server has none there, and
// `undefined` if the path is about something else. A path of the issuer comes last (RFC 8414) or first (OpenID).
function metadataPath(path) {
  const { metadata } = settings;
  const oauth = "/.well-known/oauth-authorization-server";
  const oidc = "/.well-known/openid-configuration";
  if (path === oauth + settings.path) return metadata === "both" || metadata === "oauth" ? oauth : null;
  if (path === settings.path + oidc || path === oidc + settings.path) {
    return metadata === "both" || metadata === "oidc" ? oidc : null;
  }
  return path.includes("/.well-known/") ? null : undefined;
}

// oidc-provider ignores offline_access without prompt=consent, which most authorization servers do not ask for, and
// grants nothing where no scope is asked for. Here that is everything that the client is registered for.
async function completeScopes(url, request) {
  const query = url.searchParams;
  if (!query.get("scope")) {
    const client = await provider.Client.find(query.get("client_id") ?? "");
    query.set("scope", client?.scope ?? `${settings.scopes} offline_access`);
  }
  const isOffline = query.get("scope").split(" ").includes("offline_access");
  if (isOffline && settings["refresh-tokens"] === "asked" && !query.has("prompt")) query.set("prompt", "consent");
  request.url = `/authorize${url.search}`;
  request.originalUrl = settings.path + request.url;
}

function changeIssuerParameter(context) {
  if (settings.iss === "right") return;
  if (context.body?.authorization_response_iss_parameter_supported && settings.iss === "none") {
    delete context.body.authorization_response_iss_parameter_supported;
  }
  const location = context.response.get("location");
  if (!location?.includes("iss=")) return;
  const target = new URL(location);
  if (settings.iss === "none") target.searchParams.delete("iss");
  else target.searchParams.set("iss", "https://attacker.example");
  context.response.set("location", target.href);
}
