/** How many servers and requests wait for a person, and how the other servers are. */
import { fleet } from '../lib/fleet.svelte'
import type { Group } from '../lib/status'

class Attention {
  readonly servers = $derived(countOf('needs'))
  readonly running = $derived(countOf('well'))
  readonly degraded = $derived(countOf('degraded'))
  readonly total = $derived(this.servers + fleet.requestCount)

  /** The number at a screen's link. */
  badge(screen: string): number {
    if (screen === 'servers') return this.servers
    return screen === 'requests' ? fleet.requestCount : 0
  }
}

function countOf(group: Group): number {
  return fleet.list.filter((row) => row.look.group === group).length
}

export const attention = new Attention()
