/** Tools that entries switch off for all clients: servers do not list them. */
import { SvelteMap } from 'svelte/reactivity'
import { api, path } from '../../api/client'
import type { ServerDetails } from '../../api/types'
import { fleet } from '../../lib/fleet.svelte'
import { disabledOf } from './switches'

export interface Hidden {
  server: string
  name: string
}

/** Entries of more servers than this are not read. */
const MAX_SERVERS = 50

/** Follows what is hidden while the component that calls it is there. */
export function hiddenTools(only: () => string | undefined): { readonly list: Hidden[] } {
  const found = new SvelteMap<string, string[]>()
  // As a text, so that it changes only if what hides tools does.
  const hiding = $derived(
    fleet.list
      .filter((row) => (row.info.hiddenToolCount ?? 0) > 0 && (only() === undefined || row.name === only()))
      .slice(0, MAX_SERVERS)
      .map((row) => `${row.info.hiddenToolCount} ${row.name}`)
      .join('\n'),
  )
  $effect(() => {
    const end = new AbortController()
    const names = hiding === '' ? [] : hiding.split('\n').map((line) => line.slice(line.indexOf(' ') + 1))
    for (const known of found.keys()) if (!names.includes(known)) found.delete(known)
    for (const name of names) {
      api
        .get<ServerDetails>(path`/api/servers/${name}`, {}, end.signal)
        .then(({ entry }) => found.set(name, disabledOf(entry)))
        // The list stands without what is hidden.
        .catch(() => {})
    }
    return () => end.abort()
  })
  return {
    get list() {
      return [...found].flatMap(([server, names]) => names.map((name) => ({ server, name })))
    },
  }
}
