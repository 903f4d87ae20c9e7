/** Spans of the overview, with buckets that make about a hundred points of them. */
const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

export interface Span {
  key: '15m' | '1h' | '6h' | '24h' | '7d' | '30d'
  ms: number
  bucketMs: number
  /** For totals: as few buckets as can be without losing minutes, which are counted below an hour and up to a day. */
  wholeMs: number
  /** How often it is read again. */
  refreshMs: number
}

export const SPANS: readonly Span[] = [
  { key: '15m', ms: 15 * MINUTE, bucketMs: MINUTE, wholeMs: 59 * MINUTE, refreshMs: 15_000 },
  { key: '1h', ms: HOUR, bucketMs: MINUTE, wholeMs: 59 * MINUTE, refreshMs: 15_000 },
  { key: '6h', ms: 6 * HOUR, bucketMs: 5 * MINUTE, wholeMs: 59 * MINUTE, refreshMs: 30_000 },
  { key: '24h', ms: DAY, bucketMs: 15 * MINUTE, wholeMs: 59 * MINUTE, refreshMs: MINUTE },
  { key: '7d', ms: 7 * DAY, bucketMs: 2 * HOUR, wholeMs: 60 * DAY, refreshMs: 5 * MINUTE },
  { key: '30d', ms: 30 * DAY, bucketMs: 6 * HOUR, wholeMs: 60 * DAY, refreshMs: 5 * MINUTE },
]

export function spanOf(key: string | null): Span {
  return SPANS.find((span) => span.key === key) ?? SPANS[1]!
}

/** The times of an overview that is read now. The first bucket is whole, and nothing is longer ago than the span. */
export function period(span: Span, now: number): { since: number; until: number; starts: number[] } {
  const since = Math.ceil((now - span.ms) / span.bucketMs) * span.bucketMs
  const starts: number[] = []
  for (let at = since; at < now; at += span.bucketMs) starts.push(at)
  return { since, until: now, starts }
}
