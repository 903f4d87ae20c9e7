import { describe, expect, it } from 'vitest'
import type { CallStatistics, Statistics } from '../../api/types'
import { period, SPANS, spanOf } from './spans'
import { groupsOf, most, perMinute, percentiles } from './statistics'

const MINUTE = 60_000
const figure = (minute: number, calls: number, errors = 0): CallStatistics => ({
  start: new Date(minute * MINUTE).toISOString(),
  calls,
  errors,
  p50_ms: 1,
  p95_ms: calls,
  p99_ms: 3,
  argument_bytes: 0,
  result_bytes: 0,
})
const row = (server: string, tool: string, buckets: CallStatistics[]): Statistics['tools'][number] => ({
  server,
  tool,
  method: 'tools/call',
  total: figure(0, buckets.reduce((all, it) => all + it.calls, 0), 1),
  buckets,
})
const answer: Statistics = { tools: [row('a', 'x', [figure(1, 4), figure(3, 2)]), row('a', 'y', [figure(1, 6)]), row('b', 'x', [figure(2, 1)])] }

describe('groups', () => {
  it('adds calls, and leaves percentiles of several tools out', () => {
    const [a, b] = groupsOf(answer, 'server', MINUTE)
    expect(a).toMatchObject({ server: 'a', tool: '', total: { calls: 12, errors: 2 } })
    expect(a?.total.p95_ms).toBeUndefined()
    expect(b?.total.p95_ms).toBe(1)
    expect(a?.buckets.get(MINUTE)).toEqual({ calls: 10, errors: 0 })
    // One tool alone in a bucket keeps its percentiles.
    expect(a?.buckets.get(3 * MINUTE)?.p95_ms).toBe(2)
  })

  it('puts all in one', () => {
    expect(groupsOf(answer, 'all', MINUTE).map((group) => group.total.calls)).toEqual([13])
    expect(groupsOf({ tools: [] }, 'all', MINUTE)).toEqual([])
  })

  it('finds the most', () => {
    expect(most(groupsOf(answer, 'tool', MINUTE), (group) => group.total.calls, 2).map((group) => group.key)).toEqual(['a/x', 'a/y'])
  })
})

it('fills what has no calls, and counts the last bucket by its age', () => {
  const [all] = groupsOf(answer, 'all', MINUTE)
  const starts = [0, 1, 2, 3].map((minute) => minute * MINUTE)
  expect(perMinute(all, 'calls', starts, MINUTE, 3.5 * MINUTE)).toEqual([0, 10, 1, 4])
  expect(perMinute(all, 'calls', starts, MINUTE, 3.1 * MINUTE)).toEqual([0, 10, 1, null])
  expect(percentiles(all, 'p95_ms', starts)).toEqual([null, null, 1, 2])
})

it('begins with a whole bucket', () => {
  const { since, starts } = period(spanOf('15m'), 100.5 * MINUTE)
  expect(since).toBe(85 * MINUTE)
  expect(starts).toHaveLength(16)
  for (const span of SPANS) expect(span.ms / span.bucketMs).toBeLessThanOrEqual(120)
})
