/** A single change of a server's entry, such as a switch. */
import { api, path } from '../api/client'
import type { Operated, ServerDetails } from '../api/types'
import type { Members } from '../forms/schema'
import { texts } from '../texts'

/**
 * Makes a change in the entry as it is now, not as it was when it was shown: the rest of it stays. Throws where the
 * entry cannot be changed, or another hand changes it in between (docs/rest.md, 409 `config_changed`).
 */
export async function changeEntry(server: string, change: (entry: Members) => Members): Promise<Operated> {
  const { entry, digest, server: info } = await api.get<ServerDetails>(path`/api/servers/${server}`)
  if (!entry) throw new Error(texts.servers.entryFixed)
  return api.put<Operated>(path`/api/servers/${server}`, { ...change(entry), digest, persist: info.ephemeral !== true })
}
