import { describe, expect, it } from 'vitest'
import type { History } from '../api/types'
import { gapsOf, laneOf, lanesOf, spanAt } from './history'

const at = (minute: number): string => new Date(minute * 60_000).toISOString()
const minutes = (ms: number): number => ms / 60_000
const [since, until] = [10 * 60_000, 60 * 60_000]

describe('gaps', () => {
  const gaps = (...marks: [number, string][]): [number, number][] =>
    gapsOf(marks.map(([minute, event]) => ({ at: at(minute), event })), since, until).map((gap) => [minutes(gap.from), minutes(gap.to)])

  it.each<[[number, string][], [number, number][]]>([
    [[], []],
    [[[20, 'started']], [[10, 20]]],
    [[[5, 'started']], []],
    [[[5, 'started'], [20, 'stopped'], [30, 'started']], [[20, 30]]],
    [[[20, 'lost'], [30, 'started'], [40, 'stopped']], [[20, 30], [40, 60]]],
  ])('%j', (marks, expected) => {
    expect(gaps(...marks)).toEqual(expected)
  })
})

describe('lanes', () => {
  const lane = (transitions: [number, string][], gaps: [number, number][] = [], truncated = false): string =>
    laneOf(
      { server: 'x', transitions: transitions.map(([minute, status]) => ({ at: at(minute), status })), truncated },
      gaps.map(([from, to]) => ({ from: from * 60_000, to: to * 60_000 })),
      since,
      until,
    )
      .spans.map((span) => `${minutes(span.from)}-${minutes(span.to)} ${span.word}`)
      .join(', ')

  it('begins with what was so before', () => {
    expect(lane([[5, 'connected'], [20, 'reconnecting'], [21, 'connected']])).toBe('10-20 connected, 20-21 reconnecting, 21-60 connected')
  })

  it('knows nothing of gaps', () => {
    expect(lane([[5, 'connected'], [30, 'connecting']], [[20, 25]])).toBe('10-20 connected, 30-60 starting')
    expect(lane([[5, 'connected']], [[10, 20]])).toBe('20-60 connected')
  })

  it('ends where a server was removed, and leaves out what is not known', () => {
    expect(lane([[5, 'connected'], [20, 'removed'], [30, 'some later word']])).toBe('10-20 connected')
    expect(lane([[5, 'connected'], [20, 'stopped']], [], true)).toBe('20-60 stopped')
  })

  it('keeps the order of the configuration', () => {
    const history: History = {
      servers: ['a', 'b', 'c'].map((server) => ({ server, transitions: [{ at: at(5), status: 'connected' }], truncated: false })),
      daemon: [],
      truncated: false,
    }
    expect(lanesOf(history, ['c', 'a'], since, until).lanes.map((it) => it.name)).toEqual(['c', 'a', 'b'])
  })
})

it('finds the span at a time', () => {
  const spans = laneOf({ server: 'x', transitions: [{ at: at(15), status: 'connected' }, { at: at(20), status: 'stopped' }], truncated: false }, [], since, until).spans
  expect([12, 15, 19, 20, 59, 60].map((minute) => spanAt(spans, minute * 60_000))).toEqual([-1, 0, 0, 1, 1, -1])
})
