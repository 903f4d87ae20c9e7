import { describe, expect, it } from 'vitest'
import { ApiError } from '../../api/client'
import type { CallRecord } from '../../api/types'
import { isUnsure, recordOf, SLACK_MS, type Made } from './record'

const AT = Date.parse('2026-11-24T12:00:00Z')
const made: Made = { server: 'files', tool: 'read', startedAt: AT, isCancelled: true, before: undefined }

function record(id: string, members: Partial<CallRecord> = {}): CallRecord {
  return {
    id,
    source: 'mcp_client',
    door: 'rest',
    server: 'files',
    tool: 'read',
    name: 'files/read',
    method: 'tools/call',
    started_at: new Date(AT + 20).toISOString(),
    attempt: 1,
    queue_ms: 0,
    upstream_ms: 0,
    state: 'sent',
    status: 'cancelled',
    ...members,
  }
}

describe('the record of a call that was made here', () => {
  it.each<[string, Partial<CallRecord>]>([
    ['another door', { door: 'mcp_http' }],
    ['another server', { server: 'other' }],
    ['another tool', { tool: 'write' }],
    ['another time', { started_at: new Date(AT + SLACK_MS + 1).toISOString() }],
  ])('is not that of %s', (_, members) => {
    expect(recordOf([record('2', members)], made)).toBeUndefined()
    expect(recordOf([record('2', members), record('1')], made)?.id).toBe('1')
  })

  it('may name no server, where the call was refused', () => {
    const refused = record('1', { server: null, status: 'refused', state: 'not_sent' })
    expect(recordOf([refused], { ...made, isCancelled: false })).toBe(refused)
  })

  it('may have an answer where the call was cancelled too late, and has none where it failed', () => {
    const answered = record('1', { status: 'ok', state: 'answered' })
    expect(recordOf([answered], made)).toBe(answered)
    expect(recordOf([answered], { ...made, isCancelled: false })).toBeUndefined()
  })

  it('is not guessed where several fit', () => {
    expect(recordOf([record('10'), record('9')], made)).toBeUndefined()
    expect(recordOf([record('10'), record('9')], { ...made, before: '9' })?.id).toBe('10')
  })
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
