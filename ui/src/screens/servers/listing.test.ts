import { describe, expect, it } from 'vitest'
import type { RecentCalls, Server, ServerFigures } from '../../api/types'
import { Row } from '../../lib/row.svelte'
import { lookOf } from '../../lib/status'
import { evidence, nextAttempt } from './evidence'
import { callsAMinute, countGroups, fits, isWholeMinute, lines, sorted, unchanged, wordsOf, type Listed } from './listing'
import { commandLine, requesterOf, targetOf, pendingTarget } from './target'

function listed(name: string, server: Partial<Server>, calls = 0): Listed {
  const info = { name, enabled: true, status: 'connected', connected: true, transport: 'stdio', ...server } as Server
  const figures = { name, calls, errors: 0, recent: { spanMs: 1000, calls, errors: 0, callsPerSecond: calls } } as ServerFigures
  return { name, info, look: lookOf(info), figures }
}

const rows = [
  listed('well-1', {}, 1),
  listed('down', { status: 'failed', connected: false, lastError: 'exited with code 1' }),
  listed('well-2', {}, 5),
  listed('asks', { status: 'pending', connected: false }),
  listed('off', { enabled: false, connected: false }),
  listed('mute', { healthStatus: 'degraded', lastError: 'ping timed out' }, 9),
  listed('back', { status: 'reconnecting', connected: false }),
]
const names = (list: readonly (string | Listed)[]): string[] => list.map((line) => (typeof line === 'string' ? `# ${line}` : line.name))

describe('the list', () => {
  it('groups by what is needed, what waits for approval first', () => {
    expect(names(lines(rows, 'order'))).toEqual(['# needs', 'asks', 'down', '# degraded', 'mute', '# coming', 'back', '# well', 'well-1', 'well-2', '# off', 'off'])
    expect(countGroups(rows)).toEqual({ needs: 2, degraded: 1, coming: 1, well: 2, off: 1 })
  })

  it('sorts within groups', () => {
    expect(names(lines(rows, 'calls'))).toEqual(['# needs', 'asks', 'down', '# degraded', 'mute', '# coming', 'back', '# well', 'well-2', 'well-1', '# off', 'off'])
  })

  it('finds by name, state and reason', () => {
    const found = (filter: string): string[] => rows.filter((row) => fits(row, wordsOf(filter))).map((row) => row.name)
    expect(found('well')).toEqual(['well-1', 'well-2'])
    expect(found('CODE exited')).toEqual(['down'])
    expect(found('reconnecting')).toEqual(['back'])
    expect(found('')).toHaveLength(rows.length)
  })

  it('stays the same object while nothing moves', () => {
    const before = lines(rows, 'order')
    expect(unchanged(before, lines(rows, 'order'))).toBe(before)
    expect(unchanged(before, lines(rows, 'calls'))).not.toBe(before)
  })
})

describe('calls a minute', () => {
  const of = (calls: number, spanMs: number, callsPerSecond = 0): RecentCalls => ({ calls, errors: 0, spanMs, callsPerSecond })

  it('are those of the last minute, in a burst and in the rest after it', () => {
    expect(callsAMinute(of(50, 60_000, 10))).toBe(50)
    expect(callsAMinute(of(50, 60_000))).toBe(50)
    expect(callsAMinute(of(130, 65_000))).toBe(120)
  })

  it('are the same number for a few calls, wherever in its step the minute begins', () => {
    for (let spanMs = 60_000; spanMs < 65_000; spanMs += 100) expect(callsAMinute(of(5, spanMs))).toBe(5)
  })

  it('are the calls so far where less than a minute is known', () => {
    expect(callsAMinute(of(3, 200, 0.6))).toBe(3)
    expect([200, 59_999, 60_000].map((spanMs) => isWholeMinute(of(3, spanMs)))).toEqual([false, false, true])
  })

  it('order the servers', () => {
    const of = (name: string, calls: number, callsPerSecond: number): Listed => {
      const row = listed(name, {})
      return { ...row, figures: { ...row.figures!, recent: { calls, errors: 0, spanMs: 60_000, callsPerSecond } } }
    }
    // What rests after a burst was called more often than what is called just now.
    expect(names(sorted([of('steady', 30, 0.5), of('burst', 50, 0)], 'calls'))).toEqual(['burst', 'steady'])
  })
})

describe('evidence', () => {
  const now = Date.parse('2026-01-01T00:01:00Z')
  /** A server that was read just now. */
  const server = (more: Partial<Server>, answeredAt = 0): Row => {
    const info = { enabled: true, status: 'connected', connected: true, lastSuccessAt: '2026-01-01T00:00:20Z', ...more } as Server
    return Object.assign(new Row(info), { readAt: now, answeredAt })
  }
  it('says when a server answered, or how long it is silent', () => {
    expect(evidence(server({}), now)).toBe('answered 40 s ago')
    expect(evidence(server({}, now - 3000), now)).toBe('answered 3 s ago')
    expect(evidence(server({ consecutiveHealthFailures: 2 }), now)).toBe('asked, silent for 40 s')
    expect(evidence(server({ lastSuccessAt: null }), now)).toBeUndefined()
    const measured = server({})
    measured.measure({ ...listed('x', {}).figures!, answeredAt: now - 2000 })
    expect(evidence(measured, now)).toBe('answered 2 s ago')
  })
  it('says that a question waits, unless a call was answered since or it was asked just now', () => {
    const asked = { askedAt: now - 5000 }
    expect(evidence(server(asked), now)).toBe('asked, silent for 40 s')
    expect(evidence(server(asked, now - 3000), now)).toBe('answered 3 s ago')
    expect(evidence(server({ askedAt: now - 500 }), now)).toBe('answered 40 s ago')
    // It was asked in the moment in which it was heard; two answers of the daemon tell that a little differently.
    expect(evidence(server(asked, now - 4999), now)).toBe('asked, silent for 4 s')
  })
  it('judges a question as of the reading, and not at all while the daemon is gone', () => {
    const short = server({ askedAt: now - 500 })
    expect(evidence(short, now + 30_000)).toBe('answered 1 min ago')
    expect(short.isWorking).toBe(false)
    const long = server({ askedAt: now - 5000 })
    expect(long.isWorking).toBe(true)
    expect(evidence(long, now, true)).toBe('answered 40 s ago')
    expect(evidence(server({ consecutiveHealthFailures: 2 }), now, true)).toBe('answered 40 s ago')
  })
  it('counts down to the next attempt', () => {
    const { info: down } = server({ status: 'reconnecting', reconnectAttempt: 3 })
    expect(nextAttempt(down, now + 5400, now)).toBe('attempt 3 · next in 6 s')
    expect(nextAttempt(down, now, now)).toBe('attempt 3 · trying now')
  })
})

it('quotes a command line as a shell reads it', () => {
  expect(commandLine(['npx', '-y', 'two words', "it's"])).toBe(`npx -y 'two words' 'it'\\''s'`)
})

it('tells the whole command of a server that waits, and of others the program alone', () => {
  expect(pendingTarget({ command: ['rm', '-rf', '/my files'] })).toBe("rm -rf '/my files'")
  expect(pendingTarget({ command: [], url: 'https://a.example/mcp' })).toBe('https://a.example/mcp')
  expect(targetOf({ command: 'rm', transport: 'stdio' } as unknown as Server)).toBe('rm')
})

it('names the client that asks for a server', () => {
  expect(requesterOf({ requestedBy: { client: 'desk\u202e', door: 'mcp_http', principal: 'client:mine' } })).toBe('desk\\u{202e} (MCP over HTTP, token mine)')
  expect(requesterOf({ requestedBy: { door: 'mcp_stdio', principal: 'operator' } })).toBe('a client (MCP over stdio)')
  expect(requesterOf({})).toBeUndefined()
})
