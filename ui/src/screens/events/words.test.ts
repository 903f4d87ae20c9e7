import { expect, it } from 'vitest'
import type { Event } from '../../api/types'
import { describeEvent } from './words'

const event = (type: string, data: Record<string, unknown> = {}): Event =>
  ({ id: '1', type, server: 'files', createdAt: '2026-11-24T12:00:00Z', data: { name: 'files', ...data } }) as unknown as Event

it.each<[string, Record<string, unknown>, string, string]>([
  ['server_starting', {}, 'starting', ''],
  ['server_connected', {}, 'running', ''],
  ['server_disconnected', { wasIntentional: true }, 'stopped', 'as its operator wanted'],
  ['server_disconnected', { wasIntentional: false, reason: 'process exited (signal 9)' }, 'lost', 'process exited (signal 9)'],
  ['server_reconnecting', { attempt: 2, nextRetryMs: 973, lastError: 'x' }, 'reconnecting', 'x; attempt 2 in 973 ms'],
  ['server_reconnected', { attemptsTaken: 1 }, 'reconnected', 'after 1 attempt'],
  ['server_health_degraded', { consecutiveFailures: 2 }, 'degraded', 'no reason known; 2 checks failed'],
  ['server_failed', { status: 'failed', lastError: 'x' }, 'failed', 'x; it is not tried again by itself'],
  ['call_refused', { method: 'tools/call', tool: 'crash', crashes: 3, retryAfterMs: 600_000 }, 'call refused', 'crash was in flight at 3 crashes; not sent for 10 min'],
  ['tools_changed', { added: ['a', 'b', 'c', 'd', 'e', 'f', 'g'], removed: [], count: 9 }, 'tools', '9 tools; new: a, b, c, d, e and 2 more'],
  ['config_reloaded', { added: [], removed: ['x'], changed: ['y'] }, 'configuration', 'changed: y; gone: x'],
  ['config_rejected', { reason: 'line 3' }, 'configuration refused', 'line 3; the one before stays in force'],
  ['certificate_expiring', { path: '/c.pem', expiresAt: '2027-01-01', daysLeft: 3 }, 'certificate ends', '/c.pem; valid until 2027-01-01'],
  ['certificate_rejected', { path: '/c.pem', reason: 'it is empty' }, 'certificate refused', '/c.pem; it is empty; the one before stays in force'],
  ['server_request_waiting', { id: 1, method: 'roots/list' }, 'asks', 'roots/list; waits for an answer by hand'],
  ['server_request_settled', { id: 1, method: 'roots/list', outcome: 'expired' }, 'request ended', 'roots/list; nobody answered in time'],
  ['server_request_settled', { id: 2, method: 'elicitation/create', outcome: 'disconnected' }, 'request ended', 'elicitation/create; its server has gone'],
  ['server_later', { x: 1 }, 'server_later', '{"name":"files","x":1}'],
])('%s %j', (type, data, word, detail) => {
  expect(describeEvent(event(type, data))).toMatchObject({ word, detail })
})

it('shows hostile text as text', () => {
  expect(describeEvent(event('server_failed', { lastError: 'a\u202eb' })).detail).toContain('a\\u{202e}b')
})
