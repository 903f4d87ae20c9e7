/** Entries of servers in a configuration, and a single change of one, such as a switch. */
import { api, path } from '../api/client'
import type { Operated, ServerDetails } from '../api/types'
import { isMembers, type Members } from '../forms/schema'
import { serversTexts } from '../screens/servers/texts'

/**
 * Makes a change in the entry as it is now, not as it was when it was shown: the rest of it stays. Throws where the
 * entry cannot be changed, or another hand changes it in between (docs/rest.md, 409 `config_changed`).
 */
export async function changeEntry(server: string, change: (entry: Members) => Members): Promise<Operated> {
  const { entry, digest, server: info } = await api.get<ServerDetails>(path`/api/servers/${server}`)
  if (!entry) throw new Error(serversTexts.entryFixed)
  return api.put<Operated>(path`/api/servers/${server}`, { ...change(entry), digest, persist: info.ephemeral !== true })
}

/** The entries of a configuration, in each shape that it may have: docs/configuration.md. */
export function entriesOf(config: unknown): [string, unknown][] {
  if (Array.isArray(config)) return config.flatMap((server: unknown) => (isMembers(server) && typeof server.name === 'string' ? [[server.name, server] as [string, unknown]] : []))
  if (!isMembers(config)) return []
  return [config.mcpServers, config.servers].flatMap((part) => (Array.isArray(part) ? entriesOf(part) : isMembers(part) ? Object.entries(part) : []))
}
