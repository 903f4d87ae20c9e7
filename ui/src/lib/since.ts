/** Since when a server has been down or degraded. */
import { time } from './format'
import type { Row } from './row.svelte'

/** In milliseconds since 1970; `undefined` for one that is well, switched off or waits for approval. */
export function sinceOf({ info, look }: Pick<Row, 'info' | 'look'>): number | undefined {
  if (look.word === 'degraded') return time(info.degradedSince)
  return info.connected || look.group === 'off' || look.word === 'pending' ? undefined : time(info.downSince)
}
