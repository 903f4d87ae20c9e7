import { describe, expect, it } from 'vitest'
import type { Server, ServerFigures } from '../api/types'
import { lookOf } from './status'

const connected = { name: 'x', enabled: true, status: 'connected', connected: true } as Server
const figures = (calls: number, errors: number): ServerFigures => ({ calls, errors, recent: { calls, errors, spanMs: 60_000, callsPerSecond: 1 } }) as ServerFigures

describe('a server that runs', () => {
  it('is green with evidence alone', () => {
    const tone = (server: Partial<Server>, its?: ServerFigures): string => lookOf({ ...connected, ...server }, its).tone
    expect(tone({})).toBe('well')
    expect(tone({}, figures(0, 0))).toBe('well')
    expect(tone({}, figures(2, 2))).toBe('well')
    expect(tone({}, figures(12, 11))).toBe('well')
    expect(tone({}, figures(12, 12))).toBe('wary')
    expect(tone({ consecutiveHealthFailures: 1 })).toBe('wary')
    expect(lookOf({ ...connected, consecutiveHealthFailures: 1 })).toMatchObject({ word: 'connected', group: 'well', symbol: '◐' })
  })
})
