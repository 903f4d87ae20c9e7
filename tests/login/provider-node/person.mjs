// The person at the authorization server: logs in and consents, or refuses, without a form.

export class Person {
  constructor(provider, settings) {
    this.provider = provider;
    this.name = settings.person;
    this.refuses = settings.refuse;
    // Scopes that the person grants of those that a client asks for; without, all.
    this.grants = null;
  }

  // The cookies `person` and `refuse` of a request come before the settings.
  choice(request) {
    const cookies = Object.fromEntries(
      (request.headers.cookie ?? "").split(/;\s*/).map((pair) => pair.split("=", 2)),
    );
    return {
      name: cookies.person || this.name,
      refuses: cookies.refuse === "1" || this.refuses,
    };
  }

  async grant(clientId, accountId, scope, resources) {
    const grant = new this.provider.Grant({ accountId, clientId });
    const asked = (scope ?? "").split(" ").filter(Boolean);
    const oidc = asked.filter((word) => ["openid", "offline_access"].includes(word));
    const rest = asked.filter((word) => !oidc.includes(word));
    grant.addOIDCScope([...oidc, ...rest].join(" ") || "openid");
    for (const resource of resources) {
      grant.addResourceScope(resource, rest.join(" "));
      const refused = rest.filter((word) => this.grants && !this.grants.includes(word));
      if (refused.length) grant.rejectResourceScope(resource, refused.join(" "));
    }
    return grant.save();
  }

  // GET of an interaction: its end is the redirect to the client.
  async interact(request, response) {
    const { params } = await this.provider.interactionDetails(request, response);
    const { name, refuses } = this.choice(request);
    if (refuses) {
      const result = { error: "access_denied", error_description: "the person refuses" };
      return this.provider.interactionFinished(request, response, result);
    }
    const resources = [params.resource ?? []].flat();
    const grantId = await this.grant(params.client_id, name, params.scope, resources);
    const result = { login: { accountId: name, remember: false }, consent: { grantId } };
    return this.provider.interactionFinished(request, response, result);
  }

  // GET of the verification address with the code: the person confirms on another device.
  async confirmDevice(userCode, request) {
    const code = await this.provider.DeviceCode.findByUserCode(userCode.replace(/[^a-z0-9]/gi, "").toUpperCase());
    if (!code || code.isExpired || code.error || code.accountId) return "no such code";
    const { name, refuses } = this.choice(request);
    if (refuses) {
      Object.assign(code, { error: "access_denied", errorDescription: "the person refuses" });
      await code.save();
      return "refused";
    }
    const resources = [code.params.resource ?? []].flat();
    const scope = code.params.scope ?? "";
    Object.assign(code, {
      accountId: name,
      authTime: Math.floor(Date.now() / 1000),
      grantId: await this.grant(code.clientId, name, scope, resources),
      scope,
    });
    if (resources.length) code.resource = resources.length === 1 ? resources[0] : resources;
    await code.save();
    return "confirmed";
  }
}
