/** The data of the overview, read again and again while the screen is visible. */
import { api } from '../../api/client'
import type { History, Statistics } from '../../api/types'
import { lanesOf, type Gap, type Lane } from '../../charts/history'
import { clock } from '../../lib/clock.svelte'
import { fleet } from '../../lib/fleet.svelte'
import { period, type Span } from './spans'
import { groupsOf, isRefused, most, type By, type Group } from './statistics'

/** Lines that can be told apart in a chart. */
export const MAX_LINES = 6
const LEADERS = 10
/** Transitions of one server: a lane has no room for more. */
const MAX_TRANSITIONS = 400

export type Leader = 'calls' | 'p95' | 'errors'

export interface OverviewFigures {
  span: Span
  since: number
  until: number
  starts: number[]
  all: Group | undefined
  /** The groups that are compared; empty if calls are not grouped. */
  groups: Group[]
  leaders: Record<Leader, Group[]>
}

export class OverviewReading {
  figures = $state.raw<OverviewFigures | undefined>(undefined)
  error = $state.raw<unknown>(undefined)
  lanes = $state.raw<{ lanes: Lane[]; gaps: Gap[]; since: number; until: number } | undefined>(undefined)
  historyError = $state.raw<unknown>(undefined)

  async read(span: Span, by: By, signal: AbortSignal): Promise<void> {
    await Promise.all([this.#statistics(span, by, signal), this.#history(span, signal)])
  }

  async #statistics(span: Span, by: By, signal: AbortSignal): Promise<void> {
    const { since, until, starts } = period(span, clock.exact())
    const get = async (grouped: By, sort: Leader, limit: number, bucketMs: number): Promise<Group[]> => {
      const query = { by: grouped, sort, limit, bucketMs, since: new Date(since).toISOString(), until: new Date(until).toISOString() }
      return groupsOf(await api.get<Statistics>('/api/statistics', query, signal))
    }
    try {
      const [all, groups, calls, p95, errors] = await Promise.all([
        get('all', 'calls', 1, span.bucketMs),
        by === 'all' ? [] : get(by, 'calls', MAX_LINES, span.bucketMs),
        get('tool', 'calls', LEADERS, span.wholeMs),
        get('tool', 'p95', LEADERS, span.wholeMs),
        get('tool', 'errors', LEADERS, span.wholeMs),
      ])
      this.figures = {
        span,
        since,
        until,
        starts,
        all: all[0],
        groups: most(groups, (group) => group.total.calls, MAX_LINES),
        leaders: {
          calls: most(calls, (group) => group.total.calls, LEADERS),
          p95: most(p95.filter((group) => !isRefused(group)), (group) => group.total.p95_ms ?? 0, LEADERS),
          errors: most(errors, (group) => group.total.errors, LEADERS),
        },
      }
      this.error = undefined
    } catch (error) {
      if (!signal.aborted) this.error = error
    }
  }

  async #history(span: Span, signal: AbortSignal): Promise<void> {
    const until = clock.exact()
    const since = until - span.ms
    try {
      const query = { since: new Date(since).toISOString(), until: new Date(until).toISOString(), limit: MAX_TRANSITIONS }
      const history = await api.get<History>('/api/history', query, signal)
      this.lanes = { ...lanesOf(history, fleet.names, since, until), since, until }
      this.historyError = undefined
    } catch (error) {
      if (!signal.aborted) this.historyError = error
    }
  }
}
