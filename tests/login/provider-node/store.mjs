// The state of the authorization server: in memory and, with a file, as a log of changes that a restart reads.

import { closeSync, existsSync, openSync, readFileSync, renameSync, writeFileSync, writeSync } from "node:fs";

export class Store {
  constructor(path, reuseGraceSeconds) {
    this.reuseGraceSeconds = reuseGraceSeconds;
    this.entries = new Map();
    this.requests = [];
    this.path = path;
    if (path) {
      this.read();
      this.compact();
    }
  }

  read() {
    if (!existsSync(this.path)) return;
    for (const line of readFileSync(this.path, "utf8").split("\n")) {
      let change;
      try {
        change = JSON.parse(line);
      } catch {
        continue; // The end of a line that a kill has cut.
      }
      const [what, key, value] = change;
      if (what === "set") this.entries.set(key, value);
      else if (what === "delete") this.entries.delete(key);
      else if (what === "request") this.requests.push(key);
      else if (what === "forget") this.requests = [];
    }
  }

  compact() {
    const lines = [];
    for (const [key, value] of this.entries) lines.push(JSON.stringify(["set", key, value]));
    for (const request of this.requests) lines.push(JSON.stringify(["request", request]));
    writeFileSync(`${this.path}.new`, lines.map((line) => `${line}\n`).join(""));
    renameSync(`${this.path}.new`, this.path);
    this.file = openSync(this.path, "a");
  }

  write(change) {
    if (this.file !== undefined) writeSync(this.file, `${JSON.stringify(change)}\n`);
  }

  close() {
    if (this.file !== undefined) closeSync(this.file);
  }

  get(key) {
    const entry = this.entries.get(key);
    if (!entry) return undefined;
    if (entry.expires !== null && entry.expires <= Date.now()) {
      this.delete(key);
      return undefined;
    }
    return entry.value;
  }

  set(key, value, seconds) {
    const expires = seconds === undefined ? null : Date.now() + seconds * 1000;
    this.entries.set(key, { value, expires });
    this.write(["set", key, { value, expires }]);
  }

  delete(key) {
    if (this.entries.delete(key)) this.write(["delete", key]);
  }

  // Marks something as used without a change of its lifetime.
  consume(key) {
    const entry = this.entries.get(key);
    if (!entry) return;
    entry.value = { ...entry.value, consumed: Math.floor(Date.now() / 1000) };
    this.write(["set", key, entry]);
  }

  note(request) {
    this.requests.push(request);
    this.write(["request", request]);
  }

  // The first use of a secret, such as a signing key, makes it.
  async kept(name, make) {
    const key = `kept:${name}`;
    if (!this.entries.has(key)) this.set(key, await make());
    return this.get(key);
  }

  ofModel(model) {
    const prefix = `${model}:`;
    return [...this.entries].filter(([key]) => key.startsWith(prefix)).map(([key, { value }]) => [key.slice(prefix.length), value]);
  }

  revoke(grantId) {
    for (const [key, { value }] of [...this.entries]) {
      if (value?.grantId === grantId || key === `Grant:${grantId}`) this.delete(key);
    }
  }
}

// The class that oidc-provider makes an object of for each model.
export function adapter(store) {
  return class Adapter {
    constructor(model) {
      this.model = model;
    }

    key(id) {
      return `${this.model}:${id}`;
    }

    async upsert(id, payload, expiresIn) {
      store.set(this.key(id), payload, expiresIn);
    }

    async find(id) {
      const value = store.get(this.key(id));
      if (this.model !== "RefreshToken" || !value?.consumed) return value;
      const age = Math.floor(Date.now() / 1000) - value.consumed;
      return age < store.reuseGraceSeconds ? { ...value, consumed: undefined } : value;
    }

    async findByUid(uid) {
      return store.ofModel(this.model).find(([, value]) => value.uid === uid)?.[1];
    }

    async findByUserCode(userCode) {
      return store.ofModel(this.model).find(([, value]) => value.userCode === userCode)?.[1];
    }

    async consume(id) {
      store.consume(this.key(id));
    }

    async destroy(id) {
      store.delete(this.key(id));
    }

    async revokeByGrantId(grantId) {
      for (const [id, value] of store.ofModel(this.model)) {
        if (value.grantId === grantId) store.delete(this.key(id));
      }
    }
  };
}
