import { describe, expect, it } from 'vitest'
import type { Server, ServerFigures } from '../api/types'
import { mainAction } from './operations'
import { endingOf, failing, next, outlook, why } from './reason'
import { wordOf } from './status'

const down = (more: Partial<Server>): Server => ({ name: 'files', enabled: true, connected: false, status: 'error', command: 'files', ...more }) as Server
const rejected = down({ lastError: 'args must be an array', nextAction: 'correct_entry' })
const initial = down({ lastError: 'process exited unexpectedly (code 5)', nextAction: 'see_log_and_start' })
const refused = down({ lastError: 'HTTP 401', url: 'https://x', nextAction: 'set_credentials' })

describe('the action and the words of a server that is down agree', () => {
  it.each<[string, Server, string | undefined, RegExp, string | undefined]>([
    ['a rejected entry', rejected, 'edit', /not started before its entry is corrected/, 'It is not tried again by itself.'],
    ['an error that only reads like a refused token', down({ lastError: 'HTTP 401' }), 'reconnect', /^It is not tried again by itself\. See/, 'It is not tried again by itself.'],
    ['a start that failed for good', initial, 'reconnect', /not tried again by itself/, 'It is not tried again by itself.'],
    ['a token that is refused for good', refused, 'reconnect', /not tried again by itself/, 'It is not tried again by itself.'],
    ['a token that is refused for now', { ...refused, retried: true, nextRetryMs: 9000 }, 'reconnect', /tries again seldom/, 'attempt 1 in 9 s'],
    ['one that is tried at the moment', { ...refused, retried: true, reconnectAttempt: 2 }, 'reconnect', /tries again seldom/, 'attempt 2 is under way'],
    ['one that was tried and is not any more', { ...refused, reconnectAttempt: 2 }, 'reconnect', /not tried again by itself/, 'It is not tried again by itself.'],
    ['one that comes back', down({ status: 'reconnecting', retried: true, reconnectAttempt: 3 }), 'reconnect', /tries again by itself/, 'attempt 3 is under way'],
    ['one that is given up', down({ status: 'failed' }), 'restart', /stopped trying/, 'It is not tried again by itself.'],
    ['one that crashed', down({ status: 'crashed' }), 'restart', /does not start it again/, 'It is not tried again by itself.'],
    ['one that starts', down({ status: 'connecting' }), 'stop', /under way/, undefined],
    ['one that is degraded', down({ status: 'connected', connected: true, healthStatus: 'unhealthy' }), 'restart', /asked again/, 'It stays connected and is asked again. Restart it if it does not recover.'],
    ['one that is stopped', down({ status: 'disconnected' }), 'start', /stays stopped/, undefined],
  ])('%s', (_, server, action, words, coming) => {
    const word = wordOf(server)
    const now = 1_000_000
    expect(mainAction(server, word)).toBe(action)
    expect(outlook(server, word)).toMatch(words)
    expect(next(server, word, server.nextRetryMs == null ? undefined : now + server.nextRetryMs, now)).toBe(coming)
  })
})

it('tells the last reason beside what an attempt does', () => {
  const attempt = { lastError: 'process exited unexpectedly (code 3)', starting: 'at work for 5 s', retried: true }
  const again = down({ ...attempt, status: 'reconnecting', reconnectAttempt: 2 })
  expect(why(again, 'reconnecting', 0)).toBe('process exited unexpectedly (code 3)')
  expect(next(again, 'reconnecting', undefined, 0)).toBe('attempt 2 is under way: at work for 5 s')
  expect(why(down({ ...attempt, status: 'connecting' }), 'starting', 0)).toBe('process exited unexpectedly (code 3). Starting: at work for 5 s')
  expect(why(down({ status: 'connecting' }), 'starting', 0)).toBe('Starting')
})

it('tells how a process ended where the reason does not', () => {
  expect(endingOf(down({ lastError: 'no handshake', exitCode: 3 }))).toBe('exit code 3')
  expect(endingOf(down({ exitSignal: 9 }))).toBe('signal 9')
  expect(endingOf(down({ lastError: 'process exited unexpectedly (code 3)', exitCode: 3 }))).toBeUndefined()
  expect(endingOf(down({ lastError: 'HTTP 401' }))).toBeUndefined()
})

it('tells a server that was stopped from one that is not started by itself', () => {
  const stopped = (more: Partial<Server>): string =>
    why(down({ status: 'disconnected', crashCount: 0, toolsReady: false, listsStale: false, autoStart: false, ...more }), 'stopped', 0)
  expect(stopped({})).toBe('It is not started by itself.')
  expect(stopped({ toolsReady: true, listsStale: true })).toBe('It is not started by itself.')
  expect(stopped({ toolsReady: true })).toBe('It was stopped.')
  expect(stopped({ crashCount: 1 })).toBe('It was stopped.')
  expect(stopped({ autoStart: true })).toBe('It was stopped.')
  expect(stopped({ lastError: 'no such command' })).toBe('no such command')
})

describe('a server that answers pings while its calls fail', () => {
  const figures = (calls: number, errors: number, all: number, failed: number): ServerFigures =>
    ({ calls: all, errors: failed, recent: { calls, errors, spanMs: 60_000 } }) as ServerFigures
  const connected = down({ status: 'connected', connected: true, lastSuccessAt: '1970-01-01T00:00:10Z' })

  it.each([
    [figures(30, 30, 138, 138), 'It is connected, last heard 2 s ago; all of its 30 calls of the last minute failed.'],
    [figures(1, 1, 9, 3), 'It is connected, last heard 2 s ago; its only call of the last minute failed.'],
    [figures(20, 3, 20, 3), 'It is connected, last heard 2 s ago; 3 of its 20 calls of the last minute failed.'],
    [figures(0, 0, 138, 138), 'It is connected, last heard 2 s ago; none of its 138 calls has succeeded.'],
    [figures(0, 0, 138, 137), 'It runs and answers; last heard 2 s ago.'],
    [figures(0, 0, 0, 0), 'It runs and answers; last heard 2 s ago.'],
  ])('%#', (given, words) => {
    expect(why(connected, 'connected', 12_000, given)).toBe(words)
  })

  it('is told of a row that has figures alone', () => {
    expect(failing(undefined)).toBeUndefined()
  })
})
