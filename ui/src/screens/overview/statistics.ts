/** Statistics of calls as groups and as values over time. */
import type { CallStatistics, Statistics, ToolStatistics } from '../../api/types'

export type By = 'all' | 'server' | 'tool'
export type Percentile = 'p50_ms' | 'p95_ms' | 'p99_ms'

export interface Figures {
  calls: number
  errors: number
  /** Left out where the figures are of several tools: percentiles cannot be added. */
  p50_ms?: number | undefined
  p95_ms?: number | undefined
  p99_ms?: number | undefined
}

export interface Group {
  key: string
  server: string
  tool: string
  total: Figures
  /** By the start of the bucket. */
  buckets: ReadonlyMap<number, Figures>
}

function figures(of: CallStatistics): Figures {
  return { calls: of.calls, errors: of.errors, p50_ms: of.p50_ms, p95_ms: of.p95_ms, p99_ms: of.p99_ms }
}

function sum(one: Figures | undefined, other: Figures): Figures {
  if (!one || one.calls === 0) return other
  return { calls: one.calls + other.calls, errors: one.errors + other.errors }
}

/** Rows together, whatever the answer was grouped by. */
export function groupsOf(answer: Statistics, by: By, bucketMs: number): Group[] {
  const groups = new Map<string, { row: ToolStatistics; total: Figures; buckets: Map<number, Figures> }>()
  for (const row of answer.tools) {
    const key = by === 'all' ? '' : by === 'server' ? row.server : `${row.server}/${row.tool}`
    const known = groups.get(key)
    const buckets = known?.buckets ?? new Map<number, Figures>()
    for (const bucket of row.buckets) {
      const start = Math.floor(Date.parse(bucket.start) / bucketMs) * bucketMs
      buckets.set(start, sum(buckets.get(start), figures(bucket)))
    }
    groups.set(key, { row, total: sum(known?.total, figures(row.total)), buckets })
  }
  return [...groups].map(([key, { row, total, buckets }]) => ({
    key,
    server: by === 'all' ? '' : row.server,
    tool: by === 'tool' ? row.tool : '',
    total,
    buckets,
  }))
}

export function most(groups: readonly Group[], of: (group: Group) => number, limit: number): Group[] {
  return groups.filter((group) => of(group) > 0).sort((one, other) => of(other) - of(one)).slice(0, limit)
}

/** A bucket that has just begun says little: below this share of its length it is left out. */
const MIN_AGE = 0.25

/** Calls or errors a minute at each start; the last bucket is as long as it is old. */
export function perMinute(group: Group | undefined, of: 'calls' | 'errors', starts: readonly number[], bucketMs: number, now: number): (number | null)[] {
  return starts.map((start) => {
    const age = Math.min(bucketMs, now - start)
    if (age < bucketMs * MIN_AGE) return null
    const minutes = age / 60_000
    return (group?.buckets.get(start)?.[of] ?? 0) / minutes
  })
}

/** A percentile at each start; nothing where there was no call. */
export function percentiles(group: Group | undefined, of: Percentile, starts: readonly number[]): (number | null)[] {
  return starts.map((start) => group?.buckets.get(start)?.[of] ?? null)
}
