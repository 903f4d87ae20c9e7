// The flags of the authorization server.

import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

// Each flag with its default. A number stays a number, and a boolean can be said as --no-NAME.
const DEFAULTS = {
  port: 0,
  "control-port": 0,
  // The origin at which clients see it, if a proxy is before it.
  issuer: "",
  // A path of the issuer, such as /tenant.
  path: "",
  "access-token-seconds": 3600,
  "refresh-token-seconds": 1_209_600,
  "code-seconds": 60,
  "device-seconds": 600,
  // strict: with offline_access and prompt=consent, as OpenID Connect has it; asked: with offline_access alone,
  // and all scopes where none is asked for.
  "refresh-tokens": "asked",
  // Time in which a refresh token that was used may be used again.
  "reuse-grace-seconds": 0,
  rotate: true,
  registration: true,
  "token-format": "opaque",
  // any, none (the parameter is not known), or URLs with commas.
  resources: "any",
  "require-resource": false,
  // The parameter of RFC 9207: right, none or wrong.
  iss: "right",
  // both, oauth, oidc or none.
  metadata: "both",
  scopes: "read write",
  // Clients that are registered beforehand: JSON, or a file of it.
  clients: "[]",
  // Client ID Metadata Documents by their https URL: JSON, or a file of it.
  "client-documents": "{}",
  person: "ada",
  refuse: false,
  // The control tells all codes, verifiers and tokens, to look for where they must not be.
  "tell-secrets": false,
  // The file that has all state, so that a restart loses nothing.
  state: "",
};

const CHOICES = {
  "refresh-tokens": ["strict", "asked", "always", "never"],
  "token-format": ["opaque", "jwt"],
  iss: ["right", "none", "wrong"],
  metadata: ["both", "oauth", "oidc", "none"],
};

function json(text) {
  return JSON.parse(/^\s*[[{]/.test(text) ? text : readFileSync(text, "utf8"));
}

export function settings() {
  const options = {};
  for (const [name, value] of Object.entries(DEFAULTS)) {
    options[name] = { type: typeof value === "boolean" ? "boolean" : "string" };
  }
  const given = parseArgs({ options, allowNegative: true }).values;
  const values = { ...DEFAULTS };
  for (const [name, value] of Object.entries(given)) {
    if (CHOICES[name] && !CHOICES[name].includes(value)) {
      throw new Error(`--${name} is one of ${CHOICES[name].join(", ")}`);
    }
    values[name] = typeof DEFAULTS[name] === "number" ? Number(value) : value;
  }
  values.clients = json(values.clients);
  values["client-documents"] = json(values["client-documents"]);
  return values;
}
