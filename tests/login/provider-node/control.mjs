// What a test asks of the authorization server, by JSON at another port:
//
//   GET  /control                the token requests, their counts, the logins, the clock, and secrets with --tell-secrets
//   POST /control/forget         forgets the token requests
//   POST /control/revoke         {"login"} or {"client"} or {}: ends logins (grants), one, of a client, or all
//   POST /control/expire         {}: access tokens are not valid any more, refresh tokens stay
//   POST /control/faults         {"kind", "path", "requests", "seconds", "status", "delayMs", "retryAfter", "body"}
//   POST /control/well           {}: no more faults
//   POST /control/clock          {"shift": seconds}
//   POST /control/person         {"name", "refuses", "grants"}: people grant no scopes but these
//   POST /control/narrow         {"scopes"}: logins have no scopes but these, from their next tokens on

async function body(request) {
  let text = "";
  for await (const chunk of request) text += chunk;
  return text ? JSON.parse(text) : {};
}

export function control({ provider, store, faults, clock, person, tokens }) {
  const logins = () =>
    store.ofModel("Grant").map(([id, grant]) => ({ login: id, client: grant.clientId, person: grant.accountId }));

  const actions = {
    forget() {
      store.requests = [];
      store.write(["forget"]);
    },
    revoke({ login, client }) {
      const ended = logins().filter((one) => (!login || one.login === login) && (!client || one.client === client));
      for (const one of ended) store.revoke(one.login);
      return { ended: ended.length };
    },
    expire() {
      const models = ["AccessToken", "ClientCredentials"];
      const keys = models.flatMap((model) => store.ofModel(model).map(([id]) => `${model}:${id}`));
      for (const key of keys) store.delete(key);
      return { expired: keys.length };
    },
    faults: (fault) => faults.add(fault),
    well: () => faults.clear(),
    clock({ shift }) {
      clock.shift = shift;
    },
    person({ name, refuses, grants }) {
      if (name !== undefined) person.name = name;
      if (refuses !== undefined) person.refuses = refuses;
      if (grants !== undefined) person.grants = grants.split(" ");
    },
    async narrow({ scopes }) {
      const left = new Set(scopes.split(" "));
      for (const { login } of logins()) {
        const grant = await provider.Grant.find(login);
        delete grant.rejected;
        for (const [resource, granted] of Object.entries(grant.resources ?? {})) {
          const taken = granted.split(" ").filter((scope) => !left.has(scope));
          if (taken.length) grant.rejectResourceScope(resource, taken.join(" "));
        }
        await grant.save();
      }
    },
  };

  return async (request, response) => {
    const answer = (status, value) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    try {
      const name = new URL(request.url, "http://127.0.0.1").pathname.replace(/^\/control\/?/, "");
      if (request.method === "GET" && !name) {
        const { requests } = store;
        const secrets = [...tokens.secrets];
        const counts = tokens.counts();
        const { waiting } = faults;
        return answer(200, { issuer: provider.issuer, requests, counts, logins: logins(), clock, secrets, waiting });
      }
      if (request.method !== "POST" || !Object.hasOwn(actions, name)) return answer(404, { error: "no such action" });
      return answer(200, (await actions[name](await body(request))) ?? {});
    } catch (error) {
      return answer(400, { error: String(error) });
    }
  };
}
