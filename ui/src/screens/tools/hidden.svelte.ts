/** Tools that the configuration switches off for all clients: Mainstay does not list them. */
import { entriesOf } from '../../lib/entry'
import { fleet } from '../../lib/fleet.svelte'
import { List } from '../../lib/list.svelte'
import { disabledOf } from './switches'

export interface Hidden {
  server: string
  name: string
}

/** What is hidden in a configuration. */
export function hiddenIn(config: unknown): Hidden[] {
  return entriesOf(config).flatMap(([server, entry]) => disabledOf(entry).map((name) => ({ server, name })))
}

/** Follows what is hidden while the component that calls it is there. */
export function hiddenTools(only: () => string | undefined): { readonly list: Hidden[]; again(): void } {
  // Where the configuration cannot be read, the list stands without what is hidden.
  const config = new List<unknown>(() => '/api/config')
  const list = $derived(hiddenIn(config.value).filter((tool) => (only() === undefined || tool.server === only()) && fleet.rows.has(tool.server)))
  return {
    again: () => config.again(),
    get list() {
      return list
    },
  }
}
