import { describe, expect, it } from 'vitest'
import { BadTime, format, fromQuery, closestKey, parse, spanOf, timeOf, toApi, toParameters, unfinished } from './filter'

const NOW = Date.parse('2026-11-24T12:00:00Z')

describe('the filter text', () => {
  it.each([
    'server:git status:error since:1h read',
    'server:files,git tool:"a b" client:"Claude Desktop",Cursor',
    'state:not_sent door:cli until:14:03 http://x',
    'status:ok "foo:bar" x',
    '"server:git  x"',
    'stauts:error foo:"a b" read',
    'session:s1 trace:4bf92f3577b34da6a3ce929d0e0e4736',
    '',
  ])('says the same after a round trip: %s', (text) => {
    const filter = parse(text)
    expect(parse(format(filter))).toEqual(filter)
    const query = new URLSearchParams(Object.entries(toParameters(filter)).filter((it): it is [string, string] => it[1] !== null))
    expect(fromQuery(query)).toEqual(filter)
  })

  it('takes what it does not know as a part of the name', () => {
    expect(parse('demo://a about')).toMatchObject({ text: 'demo://a about' })
  })

  it.each([
    ['stauts:error read', 'stauts:error', 'read'],
    ['foo:"a b"', 'foo:"a b"', ''],
    ['"foo:bar"', '', 'foo:bar'],
    ['text:hello', '', 'hello'],
    ['text:"server:git x"', '', 'server:git x'],
    ['Error: lost', '', 'Error: lost'],
    ['std::io C:\\x 14:03', '', 'std::io C:\\x 14:03'],
  ])('tells words with an unknown key from text: %s', (text, unknown, free) => {
    expect(parse(text)).toMatchObject({ unknown, text: free })
  })

  it.each([
    ['stauts', 'status'],
    ['sever', 'server'],
    ['sicne', 'since'],
    ['stat', 'status'],
    ['trace_id', 'trace'],
    ['foo', undefined],
    ['user', undefined],
  ])('%s: probably %s', (key, known) => {
    expect(closestKey(key)).toBe(known)
  })

  it('joins values of a key that comes twice', () => {
    expect(parse('status:ok status:error,ok').lists.status).toEqual(['ok', 'error'])
  })

  it('reads a whole text from a link', () => {
    expect(fromQuery(new URLSearchParams('q=server:git+x'))).toEqual(parse('server:git x'))
  })
})

describe('times', () => {
  it('reads spans', () => {
    expect(spanOf('15m')).toBe(900_000)
    expect(spanOf('2h')).toBe(7_200_000)
    expect(spanOf('soon')).toBeUndefined()
  })

  it('reads times of today, days and exact times', () => {
    expect(new Date(timeOf('14:03', NOW) ?? 0).getHours()).toBe(14)
    expect(timeOf('25:00', NOW)).toBeUndefined()
    expect(timeOf('2026-11-24T11:00:00Z', NOW)).toBe(NOW - 3_600_000)
    expect(new Date(timeOf('2026-11-20', NOW) ?? 0).getHours()).toBe(0)
  })

  const local = (...parts: [number, number, number, number?, number?, number?, number?]): number => new Date(...parts).getTime()
  const noon = local(2026, 10, 24, 12)

  it.each([
    ['-2h', local(2026, 10, 24, 10)],
    ['today', local(2026, 10, 24)],
    ['yesterday', local(2026, 10, 23)],
    ['yesterday 23:50', local(2026, 10, 23, 23, 50)],
    ['2026-11-20 14:03', local(2026, 10, 20, 14, 3)],
    ['2026-11-20T14:03:05', local(2026, 10, 20, 14, 3, 5)],
    ['2026-11-20 14:03:05.250', local(2026, 10, 20, 14, 3, 5, 250)],
    ['2026-11-20 14:03:05 +02:00', Date.parse('2026-11-20T12:03:05Z')],
    ['11:59', local(2026, 10, 24, 11, 59)],
    // It is to come, so the day before was meant.
    ['23:50', local(2026, 10, 23, 23, 50)],
  ])('reads %s as the commands do', (text, expected) => {
    expect(timeOf(text, noon)).toBe(expected)
  })

  it.each(['5', '1764338580', 'yesterday 25:00', '2026-11-20 soon', '2026-13-01', 'tomorrow'])('refuses %s', (text) => {
    expect(timeOf(text, noon)).toBeUndefined()
  })

  it('takes an end that is a time of day for the first one after the beginning', () => {
    const query = toApi(parse('since:11:00 until:13:00'), noon)
    expect(query).toEqual({ since: new Date(local(2026, 10, 24, 11)).toISOString(), until: new Date(local(2026, 10, 24, 13)).toISOString() })
  })

  it('keeps a time with a blank together', () => {
    const filter = parse('since:"yesterday 23:50" read')
    expect(filter).toMatchObject({ text: 'read', singles: { since: 'yesterday 23:50' } })
    expect(parse(format(filter))).toEqual(filter)
  })

  it('asks the API for exact times, and refuses what it cannot read', () => {
    expect(toApi(parse('since:1h status:ok,error'), NOW)).toEqual({ since: '2026-11-24T11:00:00.000Z', status: ['ok', 'error'] })
    expect(toApi(parse('tool:"file:///a,b",read'), NOW)).toEqual({ tool: ['file:///a,b', 'read'] })
    expect(toApi(parse('trace:4bf92f3577b34da6a3ce929d0e0e4736'), NOW)).toEqual({ trace_id: '4bf92f3577b34da6a3ce929d0e0e4736' })
    expect(() => toApi(parse('since:soon'), NOW)).toThrow(BadTime)
  })
})

describe('a word that is being typed', () => {
  it.each([
    ['status:er', 'status', 'er', ['error']],
    ['status:ok,o', 'status', 'o', ['ok', 'open']],
    ['server:git state:not', 'state', 'not', ['not_sent']],
    ['since:1', 'since', '1', []],
    ['until:14:', 'until', '14:', []],
    ['since:2026-11', 'since', '2026-11', []],
    ['since:yest', 'since', 'yest', []],
    ['since:"2026-11-24 14"', 'since', '2026-11-24 14', []],
    ['trace:4bf92f', 'trace', '4bf92f', []],
  ])('%s is not finished', (text, key, value, choices) => {
    expect(unfinished(parse(text))).toEqual({ key, value, choices })
  })

  it.each(['', 'er', 'status:', 'status:error', 'status:fine', 'state:sent', 'since:15m', 'since:14:03', 'since:2026-11-24', 'since:yesterday', 'server:er'])(
    '%s is finished, or wrong',
    (text) => {
      expect(unfinished(parse(text))).toBeUndefined()
    },
  )
})
