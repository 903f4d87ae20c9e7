/** The calls around an event, of its server where it has one. */
import type { Event } from '../../api/types'
import { href } from '../../lib/router.svelte'

const AROUND_MS = 60_000

export function callsAround(event: Event): string {
  const at = Date.parse(event.createdAt)
  return href(['calls'], {
    server: event.server ?? null,
    since: new Date(at - AROUND_MS).toISOString(),
    until: new Date(at + AROUND_MS).toISOString(),
  })
}
