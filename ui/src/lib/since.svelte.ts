/** Since when a server is not as it should be. */
import { api, isJournalOff, path } from '../api/client'
import type { History } from '../api/types'
import { clock } from './clock.svelte'
import { time } from './format'
import type { Row } from './row.svelte'

/** In milliseconds since 1970; `undefined` for one that is well, switched off or waits for approval. */
export function sinceOf({ info, look, degradedSince }: Pick<Row, 'info' | 'look' | 'degradedSince'>): number | undefined {
  if (look.word === 'degraded') return degradedSince
  return info.connected || look.group === 'off' || look.word === 'pending' ? undefined : time(info.downSince)
}

/** Reads since when a server is degraded, while a component is shown: its history tells, the list of servers does not. */
export function followDegraded(row: () => Row): void {
  let isOff = false
  $effect(() => {
    const it = row()
    if (isOff || it.look.word !== 'degraded' || it.degradedSince !== undefined) return
    // The transition may be written a moment later: it is looked for with each reading until it is there.
    void it.readAt
    const stop = new AbortController()
    const query = { since: new Date(clock.exact()).toISOString(), limit: 1 }
    api
      .get<History>(path`/api/servers/${it.name}/history`, query, stop.signal)
      .then(({ servers }) => {
        const last = servers[0]?.transitions.at(-1)
        if (last?.degraded) it.degradedSince = time(last.at)
      })
      .catch((error: unknown) => (isOff = isJournalOff(error)))
    return () => stop.abort()
  })
}
