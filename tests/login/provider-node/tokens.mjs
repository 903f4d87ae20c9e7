// The log of token requests: who asked for which grant, when, and with which outcome.

import { createHash } from "node:crypto";

const BODY_BYTES = 65_536;

// Enough to tell tokens apart, and no token.
export function fingerprint(token) {
  return token === undefined ? null : createHash("sha256").update(token).digest("hex").slice(0, 16);
}

export class Tokens {
  constructor(store, now, tellsSecrets) {
    this.store = store;
    this.now = now;
    this.tellsSecrets = tellsSecrets;
    this.secrets = new Set();
    this.middleware = this.middleware.bind(this);
  }

  async middleware(context, next) {
    await next();
    const { oidc } = context;
    if (oidc?.route !== "token") return;
    const { params, entities } = oidc;
    if (this.tellsSecrets) this.collect(params, context.body, oidc.client);
    this.note({
      grant: params?.grant_type ?? null,
      client: oidc.client?.clientId ?? params?.client_id ?? null,
      person: entities.Account?.accountId ?? null,
      resource: params?.resource ?? null,
      scope: params?.scope ?? null,
      presented: fingerprint(params?.refresh_token),
      issued: fingerprint(context.body?.refresh_token),
      login: entities.AccessToken?.grantId ?? entities.RefreshToken?.grantId ?? null,
      status: context.status,
      outcome: context.status === 200 ? "ok" : (context.body?.error ?? "error"),
    });
  }

  collect(params, body, client) {
    const { code, code_verifier: verifier, refresh_token: refresh, device_code: device, client_assertion: assertion } = params;
    const { access_token: access, refresh_token: next, id_token: id } = body;
    for (const secret of [code, verifier, refresh, device, assertion, access, next, id, client?.clientSecret]) {
      if (secret) this.secrets.add(secret);
    }
  }

  note(request) {
    this.store.note({ at: this.now() / 1000, ...request });
  }

  // A token request that does not reach oidc-provider. A lost answer is noted by both.
  async noteFault(fault, request, path) {
    if (!path.endsWith("/token") || fault.kind === "lostAnswer" || fault.kind === "slow") return;
    const chunks = [];
    let bytes = 0;
    for await (const chunk of request) {
      bytes += chunk.length;
      if (bytes > BODY_BYTES) break;
      chunks.push(chunk);
    }
    const form = new URLSearchParams(Buffer.concat(chunks).toString());
    this.note({
      grant: form.get("grant_type"),
      client: form.get("client_id"),
      person: null,
      resource: form.get("resource"),
      scope: form.get("scope"),
      presented: fingerprint(form.get("refresh_token") ?? undefined),
      issued: null,
      login: null,
      status: null,
      outcome: `fault: ${fault.kind}`,
    });
  }

  // The number of outcomes by grant and client.
  counts() {
    const counts = {};
    for (const { grant, client, outcome } of this.store.requests) {
      const clients = (counts[grant] ??= {});
      const outcomes = (clients[client] ??= {});
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    }
    return counts;
  }
}
