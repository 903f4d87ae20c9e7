/** What is switched off for which client. A client is known by the name of its token, or else by its own name. */
import { api, path } from '../../api/client'
import type { components } from '../../api/schema'
import type { Session } from '../../api/types'

type SwitchedOff = components['schemas']['SwitchedOff']

const NOTHING: SwitchedOff = { servers: [], tools: [] }

class Switches {
  clients = $state.raw<Record<string, SwitchedOff>>({})

  async load(signal?: AbortSignal): Promise<void> {
    this.clients = (await api.get<components['schemas']['Switches']>('/api/switches', {}, signal)).clients
  }

  switchedOffFor(client: string): SwitchedOff {
    return Object.hasOwn(this.clients, client) ? (this.clients[client] ?? NOTHING) : NOTHING
  }

  async set(client: string, server: string, tool: string | undefined, enabled: boolean): Promise<void> {
    await api.put(path`/api/switches/${client}`, tool === undefined ? { server, enabled } : { server, tool, enabled })
    await this.load()
  }

  async clear(client: string): Promise<void> {
    await api.delete(path`/api/switches/${client}`)
    await this.load()
  }
}

export const switches = new Switches()

/** The name of the token with which the client of a session came, if it has one of its own. */
export function tokenName(session: Partial<Session>): string | undefined {
  return /^client:(.*)$/.exec(session.principal ?? '')?.[1]
}

/** The name by which switches know the client of a session. */
export function clientName(session: Partial<Session>): string {
  return tokenName(session) ?? session.client?.name ?? ''
}
