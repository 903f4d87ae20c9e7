import { describe, expect, it } from 'vitest'
import type { CallStatistics, Statistics } from '../../api/types'
import { period, SPANS, spanOf } from './spans'
import { groupsOf, isRefused, most, perMinute, percentiles } from './statistics'

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
const row = (server: string, tool: string, buckets: CallStatistics[], method = 'tools/call'): Statistics['tools'][number] => ({
  server,
  tool,
  method,
  total: figure(0, buckets.reduce((all, it) => all + it.calls, 0), 1),
  buckets,
})
const answer: Statistics = {
  tools: [row('a', 'x', [figure(1, 4), figure(3, 2)]), row('a', 'x', [figure(1, 9)], 'prompts/get'), row('b', '', [figure(2, 1)], 'resources/read')],
}

describe('groups', () => {
  it('has one for each row, by its method too', () => {
    const groups = groupsOf(answer)
    expect(new Set(groups.map((group) => group.key)).size).toBe(3)
    expect(groups[0]).toMatchObject({ server: 'a', tool: 'x', total: { calls: 6, p95_ms: 6 } })
    expect(groups[0]?.buckets.get(3 * MINUTE)).toMatchObject({ calls: 2, p95_ms: 2 })
    expect(groupsOf({ tools: [] })).toEqual([])
  })

  it('tells resources from calls that were refused', () => {
    expect(groupsOf(answer).map(isRefused)).toEqual([false, false, false])
    const refused = { tools: [row('a', '', []), row('', '', [], 'resources/read'), row('a', '', [], 'prompts/get')] }
    expect(groupsOf(refused).map(isRefused)).toEqual([true, true, true])
  })

  it('finds the most', () => {
    expect(most(groupsOf(answer), (group) => group.total.calls, 2).map((group) => group.method)).toEqual(['prompts/get', 'tools/call'])
  })
})

it('fills what has no calls, and never scales less than a minute up', () => {
  const [first] = groupsOf(answer)
  const starts = [0, 1, 2, 3].map((minute) => minute * MINUTE)
  expect(perMinute(first, 'calls', starts, MINUTE, 3.6 * MINUTE)).toEqual([0, 4, 0, 2 / 1.6])
  expect(perMinute(first, 'calls', starts.slice(0, 2), MINUTE, 1.5 * MINUTE)).toEqual([0, 4 / 1.5])
  expect(perMinute(first, 'calls', [-2 * MINUTE, 3 * MINUTE], 5 * MINUTE, 5 * MINUTE)).toEqual([0, 1])
  expect(perMinute(first, 'calls', starts, MINUTE, 3.1 * MINUTE)).toEqual([0, 4, 0, null])
  expect(percentiles(first, 'p95_ms', starts)).toEqual([null, 4, null, 2])
})

it('begins with a whole bucket', () => {
  const { since, starts } = period(spanOf('15m'), 100.5 * MINUTE)
  expect(since).toBe(86 * MINUTE)
  expect(starts).toHaveLength(15)
  for (const span of SPANS) expect(span.ms / span.bucketMs).toBeLessThanOrEqual(120)
})
