import { describe, expect, it } from 'vitest'
import { callsTexts } from './texts'
import { splitOf, truthOf, type Truth } from './truth'

describe('whether a call ran', () => {
  it.each<[string, string, Truth]>([
    ['answered', 'ok', 'answered'],
    ['answered', 'error', 'failed'],
    ['not_sent', 'refused', 'refused'],
    ['not_sent', 'error', 'notSent'],
    ['not_sent', 'timeout', 'timeoutNotSent'],
    ['sent', 'timeout', 'timeoutSent'],
    ['not_sent', 'cancelled', 'cancelledNotSent'],
    ['sent', 'cancelled', 'cancelledSent'],
    ['sent', 'unknown', 'unknown'],
    ['sent', 'error', 'unknown'],
    ['not_sent', 'open', 'openWaiting'],
    ['sent', 'open', 'openSent'],
  ])('%s, %s: %s', (state, status, truth) => {
    expect(truthOf({ state, status })).toBe(truth)
  })

  it('leaves it to the error why it is not known how a call ended: it may say HTTP 502', () => {
    for (const kind of ['outcome_unknown', 'server_unavailable']) {
      const truth = truthOf({ state: 'sent', status: 'unknown', error: { kind } })
      expect(truth).toBe('unknown')
      expect(callsTexts.truth[truth]).not.toMatch(/connection|no answer/)
    }
  })
})

it('never splits a call into less than nothing', () => {
  expect(splitOf({ duration_ms: 10, queue_ms: 2, upstream_ms: 7 })).toEqual({ queue: 2, upstream: 7, rest: 1, total: 10 })
  expect(splitOf({ duration_ms: 0.1, queue_ms: 0.1, upstream_ms: 0.1 }).rest).toBe(0)
})
