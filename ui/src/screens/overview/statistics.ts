/** Statistics of calls as groups and as values over time. */
import type { CallStatistics, Statistics } from '../../api/types'

export type By = 'all' | 'server' | 'tool'
export type Percentile = 'p50_ms' | 'p95_ms' | 'p99_ms'

export type Figures = Pick<CallStatistics, 'calls' | 'errors' | Percentile>

export interface Group {
  key: string
  server: string
  /** Empty where the calls of the group do not share it. */
  tool: string
  method: string
  total: Figures
  /** By the start of the bucket. */
  buckets: ReadonlyMap<number, Figures>
}

/** Each row of an answer. */
export function groupsOf(answer: Statistics): Group[] {
  return answer.tools.map(({ server, tool, method, total, buckets }) => ({
    key: `${method} ${server}/${tool}`,
    server,
    tool,
    method,
    total,
    buckets: new Map(buckets.map((bucket) => [Date.parse(bucket.start), bucket])),
  }))
}

/** Of a row that is one of tools: resources of a server are one, and so are calls that were refused, by whatever name. */
export function isRefused(group: Group): boolean {
  return group.server === '' || (group.tool === '' && group.method !== 'resources/read')
}

export function most(groups: readonly Group[], of: (group: Group) => number, limit: number): Group[] {
  return groups.filter((group) => of(group) > 0).sort((one, other) => of(other) - of(one)).slice(0, limit)
}

/** A bucket that has just begun says little: below this share of its length it is left out. */
const MIN_AGE = 0.25

/** Calls or errors a minute at each start; the last bucket is as long as it is old. Before it is a minute old, the one before counts, too. */
export function perMinute(group: Group | undefined, of: 'calls' | 'errors', starts: readonly number[], bucketMs: number, now: number): (number | null)[] {
  return starts.map((start) => {
    const age = Math.min(bucketMs, now - start)
    if (age < bucketMs * MIN_AGE) return null
    const before = age < 60_000 ? bucketMs : 0
    const counted = (at: number): number => group?.buckets.get(at)?.[of] ?? 0
    return (counted(start) + (before && counted(start - before))) / ((age + before) / 60_000)
  })
}

/** A percentile at each start; nothing where there was no call. */
export function percentiles(group: Group | undefined, of: Percentile, starts: readonly number[]): (number | null)[] {
  return starts.map((start) => group?.buckets.get(start)?.[of] ?? null)
}
