/** What each server runs, in short: read from the configuration once, and when that changes. */
import { api } from '../../api/client'
import { entriesOf } from '../../lib/entry'
import { fleet } from '../../lib/fleet.svelte'
import { Polled } from '../../lib/polled.svelte'
import { shortOf } from './short'

/** Follows the configuration while the component that calls it is there. Where it cannot be read, nothing is known. */
export function readShorts(): (name: string) => string | undefined {
  const config = new Polled(0, (signal) => api.get<unknown>('/api/config', {}, signal), () => fleet.entriesVersion)
  const shorts = $derived(new Map(entriesOf(config.value).map(([name, entry]) => [name, shortOf(entry)])))
  return (name) => shorts.get(name)
}
