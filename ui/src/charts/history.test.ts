import { describe, expect, it } from 'vitest'
import type { History } from '../api/types'
import { gapsOf, hadTrouble, laneOf, lanesOf, placesOf, pointedAt, reasonOf, spanAt } from './history'

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

  it('tells a refused token by what the daemon says, not by words', () => {
    const word = (more: object): string | undefined =>
      laneOf({ server: 'x', transitions: [{ at: at(5), status: 'error', ...more }], truncated: false }, [], since, until).spans[0]?.word
    expect(word({ reason: 'no', unauthorized: true })).toBe('unauthorized')
    expect(word({ reason: 'cannot connect: HTTP 403, unauthorized' })).toBe('error')
  })

  it('knows nothing of gaps', () => {
    expect(lane([[5, 'connected'], [30, 'connecting']], [[20, 25]])).toBe('10-20 connected, 30-60 starting')
    expect(lane([[5, 'connected']], [[10, 20]])).toBe('20-60 connected')
  })

  it('ends where a server was removed, and leaves out what is not known', () => {
    expect(lane([[5, 'connected'], [20, 'removed'], [30, 'some later word']])).toBe('10-20 connected')
    expect(lane([[5, 'connected'], [20, 'disconnected']], [], true)).toBe('20-60 stopped')
  })

  it('tells what is disabled from what was stopped', () => {
    const words = ['disabled', 'its parent is gone', undefined].map((reason) => {
      const transitions = [{ at: at(5), status: 'disconnected', ...(reason && { reason }) }]
      const span = laneOf({ server: 'x', transitions, truncated: false }, [], since, until).spans[0]
      return span && [span.word, reasonOf(span)]
    })
    expect(words).toEqual([['disabled', ''], ['stopped', 'its parent is gone'], ['stopped', 'Stopped by its operator, or not started yet.']])
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

it('puts gaps between the states', () => {
  const gaps = [{ from: 20 * 60_000, to: 25 * 60_000 }]
  const lane = laneOf({ server: 'x', transitions: [{ at: at(5), status: 'connected' }, { at: at(25), status: 'connected' }], truncated: false }, gaps, since, until)
  expect(placesOf(lane, gaps).map((place) => [minutes(place.from), 'word' in place])).toEqual([[10, true], [20, false], [25, true]])
})

it('finds the span at a time', () => {
  const spans = laneOf({ server: 'x', transitions: [{ at: at(15), status: 'connected' }, { at: at(20), status: 'disconnected' }], truncated: false }, [], since, until).spans
  expect([12, 15, 19, 20, 59, 60].map((minute) => spanAt(spans, minute * 60_000))).toEqual([-1, 0, 0, 1, 1, -1])
})

it('finds what is narrower than a pointer', () => {
  const transitions = [[5, 'connected'], [30, 'reconnecting'], [30.01, 'connected'], [40, 'disconnected']] as const
  const history = { server: 'x', transitions: transitions.map(([minute, status]) => ({ at: at(minute), status })), truncated: false }
  const places = placesOf(laneOf(history, [], since, until), [])
  const words = [20, 29.5, 30.5, 32, 45, 70].map((minute) => {
    const place = pointedAt(places, minute * 60_000, 60_000)
    return place && 'word' in place ? place.word : undefined
  })
  expect(words).toEqual(['connected', 'reconnecting', 'reconnecting', 'connected', 'stopped', undefined])
})

describe('trouble', () => {
  const had = (...statuses: string[]): boolean =>
    hadTrouble(laneOf({ server: 'x', transitions: statuses.map((status, index) => ({ at: at(12 + index), status })), truncated: false }, [], since, until))

  it.each<[string[], boolean]>([
    [['connecting', 'connected'], false],
    [['disconnected'], false],
    [['connected', 'disconnected', 'connecting', 'connected'], false],
    [['connected', 'connecting', 'connected'], true],
    [['connected', 'reconnecting', 'connected'], true],
    [['connecting', 'error'], true],
    [['pending'], true],
    [[], false],
  ])('%j: %s', (statuses, expected) => {
    expect(had(...statuses)).toBe(expected)
  })
})
