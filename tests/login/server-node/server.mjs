#!/usr/bin/env node
// A remote MCP server that asks for a login, made of the official SDK and its middleware. The first line of
// its output says where it is: {"url"}. GET /counts says how its requests were answered.

import { randomUUID } from "node:crypto";
import { request as httpRequest } from "node:http";
import { parseArgs } from "node:util";

import { InvalidTokenError } from "@modelcontextprotocol/sdk/server/auth/errors.js";
import { requireBearerAuth } from "@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js";
import { getOAuthProtectedResourceMetadataUrl, mcpAuthMetadataRouter } from "@modelcontextprotocol/sdk/server/auth/router.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { isInitializeRequest } from "@modelcontextprotocol/sdk/types.js";
import express from "express";
import { createRemoteJWKSet, jwtVerify } from "jose";
import { z } from "zod";

const RESOURCE_SERVER = "resource-server:resource-server-secret";

const settings = parseArgs({
  allowNegative: true,
  options: {
    port: { type: "string", default: "0" },
    // The issuer of tokens.
    provider: { type: "string" },
    verify: { type: "string", default: "introspection" }, // or jwks
    // Scopes that every request needs, in one string.
    scopes: { type: "string", default: "" },
    // The resource in the metadata: exact, slash (one more at the end), origin, or a URL.
    resource: { type: "string", default: "exact" },
    // Without protected resource metadata, as in 2025-03-26. With --proxy its own origin is the authorization
    // server: other paths than /mcp go to that address.
    prm: { type: "boolean", default: true },
    proxy: { type: "string", default: "" },
    // The header WWW-Authenticate of a refusal: none, bare (only "Bearer") or full.
    challenge: { type: "string", default: "full" },
    // The resource that tokens must be for; empty: any.
    audience: { type: "string", default: "own" },
  },
}).values;

const app = express();
const listener = app.listen(Number(settings.port), "127.0.0.1", start);
// Clients that keep their connections must not keep the process.
process.on("SIGTERM", () => process.exit(0));

const counts = { answers: {}, calls: {} };

async function start(error) {
  if (error) throw error;
  const origin = `http://127.0.0.1:${listener.address().port}`;
  const url = new URL(`${origin}/mcp`);
  install(origin, url);
  process.stdout.write(`${JSON.stringify({ url: url.href })}\n`);
}

function install(origin, url) {
  const issuer = settings.provider ?? origin;
  const resource = { exact: url.href, slash: `${url.href}/`, origin: `${origin}/` }[settings.resource] ?? settings.resource;
  const audience = settings.audience === "own" ? resource : settings.audience || undefined;
  const scopes = settings.scopes.split(" ").filter(Boolean);
  const metadataUrl = settings.prm ? getOAuthProtectedResourceMetadataUrl(url) : undefined;
  const verifier = { verifyAccessToken: settings.verify === "jwks" ? byKeys(issuer) : byIntrospection(issuer) };
  const guard = (requiredScopes) =>
    requireBearerAuth({ verifier, requiredScopes, resourceMetadataUrl: metadataUrl, expectedResource: audience });

  app.use("/mcp", express.json(), countAnswers, weakenChallenge);
  app.use("/mcp", (request, response, next) => {
    const call = [request.body ?? []].flat().find(({ method }) => method === "tools/call");
    return guard(call?.params?.name === "write" ? [...scopes, "write"] : scopes)(request, response, next);
  });
  const sessions = new Map();
  app.all("/mcp", (request, response) => serve(sessions, request, response));
  app.get("/counts", (_, response) => void response.json(counts));
  if (settings.prm) {
    app.get(new URL(metadataUrl).pathname, (_, response, next) => {
      // The router has the resource from a URL object, so that only here it can differ by a slash.
      if (resource === url.href) return next();
      return response.json({ resource, authorization_servers: [issuer], scopes_supported: metadataScopes(scopes) });
    });
    app.use(
      mcpAuthMetadataRouter({
        // Only the issuer gets into the resource's metadata.
        oauthMetadata: { issuer, authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${issuer}/token`, response_types_supported: ["code"] },
        resourceServerUrl: url,
        scopesSupported: metadataScopes(scopes),
      }),
    );
  }
  if (settings.proxy) app.use(passOn);
}

function metadataScopes(scopes) {
  return scopes.length ? scopes : ["read"];
}

function countAnswers(request, response, next) {
  response.once("finish", () => {
    counts.answers[response.statusCode] = (counts.answers[response.statusCode] ?? 0) + 1;
  });
  next();
}

function weakenChallenge(_, response, next) {
  const set = response.set.bind(response);
  response.set = (name, value) => {
    if (name !== "WWW-Authenticate" || settings.challenge === "full") return set(name, value);
    return settings.challenge === "bare" ? set(name, "Bearer") : response;
  };
  next();
}

function byKeys(issuer) {
  let keys;
  return async (token) => {
    if (!keys) {
      const metadata = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json();
      keys = createRemoteJWKSet(new URL(metadata.jwks_uri));
    }
    let payload;
    try {
      ({ payload } = await jwtVerify(token, keys, { issuer }));
    } catch (error) {
      if (error.code?.startsWith("ERR_J")) throw new InvalidTokenError("Token is not valid");
      throw error;
    }
    return authInfo(token, payload);
  };
}

function byIntrospection(issuer) {
  return async (token) => {
    const answer = await fetch(`${issuer}/introspect`, {
      method: "POST",
      headers: { authorization: `Basic ${btoa(RESOURCE_SERVER)}` },
      body: new URLSearchParams({ token }),
    });
    const payload = await answer.json();
    if (!payload.active) throw new InvalidTokenError("Token is not active");
    return authInfo(token, payload);
  };
}

function authInfo(token, payload) {
  const audience = [payload.aud ?? []].flat()[0];
  return {
    token,
    clientId: payload.client_id,
    scopes: (payload.scope ?? "").split(" ").filter(Boolean),
    expiresAt: payload.exp,
    resource: audience && URL.canParse(audience) ? new URL(audience) : undefined,
    extra: { subject: payload.sub ?? null, audience: audience ?? null },
  };
}

function server() {
  const mcp = new McpServer({ name: "login-node", version: "1.0.0" });
  const text = (value) => ({ content: [{ type: "text", text: value }] });
  const tool = (name, inputSchema, answer) =>
    mcp.registerTool(name, { description: name, inputSchema }, (given, { authInfo: token }) => {
      counts.calls[name] = (counts.calls[name] ?? 0) + 1;
      return text(answer(given, token));
    });
  tool("echo", { text: z.string() }, ({ text: said }) => said);
  tool("write", { text: z.string() }, ({ text: said }) => `written: ${said}`);
  tool("whoami", {}, (_, { clientId, scopes, expiresAt, extra }) =>
    JSON.stringify({ subject: extra.subject, client: clientId, scopes, audience: extra.audience, expiresAt }),
  );
  return mcp;
}

async function serve(sessions, request, response) {
  const id = request.headers["mcp-session-id"];
  let transport = sessions.get(id);
  if (!transport) {
    if (id || request.method !== "POST" || !isInitializeRequest(request.body)) {
      const error = { code: -32001, message: "no such session" };
      return void response.status(id ? 404 : 400).json({ jsonrpc: "2.0", id: null, error });
    }
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (session) => void sessions.set(session, transport),
      onsessionclosed: (session) => void sessions.delete(session),
    });
    await server().connect(transport);
  }
  return transport.handleRequest(request, response, request.body);
}

// The authorization server sees the host that the client sees.
function passOn(request, response) {
  const { hostname, port } = new URL(settings.proxy);
  const { method, url: path, headers } = request;
  const onward = httpRequest({ hostname, port, method, path, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  onward.on("error", () => response.destroy());
  request.pipe(onward);
}
