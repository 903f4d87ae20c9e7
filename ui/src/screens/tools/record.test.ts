import { expect, it } from 'vitest'
import { ApiError } from '../../api/client'
import { isUnsure, newTrace } from './record'

it('gives each call a trace of its own', () => {
  const [one, other] = [newTrace(), newTrace()]
  expect(one.traceparent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/)
  expect(one.traceparent).toContain(one.id)
  expect(one.id).not.toBe(other.id)
})

it.each<[string, number, boolean]>([
  ['call_failed', 504, true],
  ['outcome_unknown', 502, true],
  ['message_too_large', 502, true],
  ['call_failed', 502, false],
  ['server_not_connected', 503, false],
])('%s, %i: may have run is %s', (code, status, may) => {
  expect(isUnsure(new ApiError(code, status, ''))).toBe(may)
})

it('may have run where the connection to Mainstay broke', () => {
  expect(isUnsure(new Error('broke'))).toBe(true)
})
