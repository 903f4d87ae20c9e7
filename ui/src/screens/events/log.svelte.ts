/** Events that the daemon remembers, and those that come: the newest first. */
import { api } from '../../api/client'
import type { Event, Events } from '../../api/types'

/** The number of events that the page keeps: more than a person reads. */
const MAX_EVENTS = 2000

export class EventLog {
  events = $state.raw<readonly Event[]>([])
  state = $state<'loading' | 'ready' | 'failed'>('loading')
  error = $state.raw<unknown>(undefined)

  async load(signal: AbortSignal): Promise<void> {
    try {
      this.add((await api.get<Events>('/api/events/recent', { limit: MAX_EVENTS }, signal)).events)
      this.state = 'ready'
    } catch (error) {
      if (signal.aborted) return
      this.error = error
      this.state = this.events.length === 0 ? 'failed' : 'ready'
    }
  }

  /** Takes events in any order, those that are known as well. Ids sort as text. */
  add(events: readonly Event[]): void {
    const known = new Set(this.events.map((event) => event.id))
    const fresh = events.filter((event) => !known.has(event.id))
    if (fresh.length === 0) return
    const all = [...fresh, ...this.events]
    all.sort((one, other) => (one.id < other.id ? 1 : one.id > other.id ? -1 : 0))
    this.events = all.slice(0, MAX_EVENTS)
  }
}
