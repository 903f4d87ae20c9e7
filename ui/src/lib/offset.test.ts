import { describe, expect, it } from 'vitest'
import { offsetAfter } from './offset'

const at = Date.parse('2026-11-24T12:00:00Z')
const date = 'Tue, 24 Nov 2026 12:00:00 GMT'

describe('the offset of the daemon\u2019s clock', () => {
  it.each<[string, number, number, number, number]>([
    ['of one clock is none, wherever in the second it is', 0, at + 990, at + 995, 0],
    ['is found where the daemon is ahead', 0, at - 300_000, at - 299_900, 300_450],
    ['is found where the daemon is behind', 0, at + 60_000, at + 60_020, -59_510],
    ['stays while answers agree with it', 300_120, at - 300_000, at - 299_900, 300_120],
    ['is found anew where the clock was set', 300_120, at + 500, at + 510, -5],
    ['is no more than a slow answer proves', 0, at - 20_000, at + 100, 0],
  ])('%s', (_, known, sentAt, receivedAt, offset) => {
    expect(offsetAfter(known, date, sentAt, receivedAt)).toBe(offset)
  })

  it('is what it was without a date', () => {
    expect(offsetAfter(7, null, 0, 0)).toBe(7)
    expect(offsetAfter(7, 'soon', 0, 0)).toBe(7)
  })
})
