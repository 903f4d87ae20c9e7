import { describe, expect, it } from 'vitest'
import { byField, check, freeName, isSecret, otherSettings, parseEntry, shownOf, toEntry, toForm, transportOf, withoutValues, type Entry } from './entry'

describe('the form of an entry', () => {
  it.each<Entry>([
    { command: 'npx', args: ['-y', 'server', 'two words'], env: { A: '1', B: null }, cwd: '~/x', timeout: 5000 },
    { url: 'https://x.example/mcp', headers: { 'X-Key': '${secret:/mcpServers/x/headers/X-Key}' } },
    { serverUrl: 'https://x.example/sse', type: 'sse', autoStart: false },
    { command: 'sh', args: ['-c', 'one\ntwo'] },
    { type: 'stdio', command: 'x', args: [], env: {}, autoStart: true, health: { action: 'off' } },
    { command: ['x'], args: 'not a list', env: { A: ['x'], PORT: 1 }, cwd: 7, autoStart: 'yes' },
    { command: 'x', args: [{ no: 'text' }, 8080], env: ['A=1'] },
  ])('gives back what it was made from: %j', (entry) => {
    expect(toEntry(toForm('x', entry))).toEqual(entry)
    expect(Object.keys(toEntry(toForm('x', entry)))).toEqual(Object.keys(entry))
  })

  it('keeps the placeholder of a secret until something is typed', () => {
    const kept = '${secret:/mcpServers/x/env/KEY}'
    const form = toForm('x', { command: 'x', env: { KEY: kept } })
    expect(form.env[0]).toMatchObject({ value: '', kept })
    expect(toEntry(form)['env']).toEqual({ KEY: kept })
    form.env[0]!.value = 'new'
    expect(toEntry(form)['env']).toEqual({ KEY: 'new' })
  })

  it('changes the transport with its keys', () => {
    const form = toForm('x', { type: 'stdio', command: 'x', args: ['y'], env: { A: '1' }, timeout: 5000 })
    form.transport = 'sse'
    form.url = ' https://x.example/sse '
    expect(toEntry(form)).toEqual({ type: 'sse', timeout: 5000, url: 'https://x.example/sse' })
    form.transport = 'http'
    expect(toEntry(form)).toEqual({ timeout: 5000, url: 'https://x.example/sse' })
  })

  it('takes lines as arguments, and leaves empty ones at the end out', () => {
    const form = toForm('x', {})
    form.command = 'npx'
    form.args = '-y\n\ntwo words\n\n'
    expect(toEntry(form)).toEqual({ command: 'npx', args: ['-y', '', 'two words'] })
  })

  it.each([
    [{}, 'stdio'],
    [{ url: 'x' }, 'http'],
    [{ transport: 'Streamable_HTTP', url: 'x' }, 'http'],
    [{ type: 'sse', url: 'x' }, 'sse'],
    [{ type: 'local' }, 'stdio'],
  ] as [Entry, string][])('infers the transport of %j', (entry, transport) => expect(transportOf(entry)).toBe(transport))
})

it('knows secrets by their names, and references as none', () => {
  const pair = { id: 1, name: 'API_KEY', value: 'x' }
  expect(isSecret(pair)).toBe(true)
  expect(isSecret({ ...pair, value: '${env:API_KEY}' })).toBe(false)
  expect(isSecret({ ...pair, name: 'LANG' })).toBe(false)
})

it('says what is missing before anything is sent', () => {
  const form = toForm('', {})
  expect(Object.keys(check(form))).toEqual(['name', 'command'])
  form.transport = 'http'
  form.url = 'ftp://x'
  expect(Object.keys(check(form))).toEqual(['name', 'url'])
})

it('puts findings at their fields', () => {
  const finding = (path: string, message: string, hint?: string) => ({ severity: 'error' as const, path, message, hint })
  const findings = [
    finding('args', 'must be an array'),
    finding('env.A', 'expected a string', 'quote it'),
    finding('health.method', 'unknown'),
    finding('serverUrl', 'no'),
    finding('', 'said at large'),
  ]
  expect(byField(findings)).toEqual({
    args: ['must be an array'],
    env: ['A: expected a string (quote it)'],
    url: ['no'],
    '': ['health.method: unknown', 'said at large'],
  })
})

it('reads JSON or says why not', () => {
  expect(parseEntry('{"command":"x"}')).toEqual({ entry: { command: 'x' } })
  expect(parseEntry('[]')).toHaveProperty('error')
  expect(parseEntry('{')).toHaveProperty('error')
})

it('shows names of variables, never values', () => {
  expect(shownOf({ command: 'npx', args: ['x'], env: { KEY: 'secret' } })).toEqual({
    command: ['npx', 'x'],
    cwd: undefined,
    url: undefined,
    env: ['KEY'],
    headers: [],
  })
})

it('finds a free name', () => {
  expect(freeName('files', (name) => name === 'files-2')).toBe('files-3')
  expect(freeName('files-2', (name) => ['files', 'files-2'].includes(name))).toBe('files-3')
  const numbered = ['srv-001', 'srv-002', 'port-80']
  for (const name of numbered) expect(freeName(name, (it) => numbered.includes(it))).toBe(`${name}-2`)
  expect(freeName('srv-001', (it) => [...numbered, 'srv'].includes(it))).toBe('srv-001-2')
})

it('says what else is set, without what may be secret', () => {
  expect(otherSettings({ command: 'npx', args: ['x'], enabled: false, timeout_s: 30, allowedTools: ['a'], bearerToken: 'abc' })).toBe(
    'enabled: false, timeout_s: 30, allowedTools, bearerToken',
  )
})

it('hides what may be secret in an entry that is compared', () => {
  expect(withoutValues({ command: 'x', env: { A: 'secret', B: null } })).toEqual({ command: 'x', env: { A: '…', B: '…' } })
  expect(withoutValues({ url: 'https://a.example', headers: { K: 'secret' } })).toEqual({ url: 'https://a.example', headers: { K: '…' } })
  expect(withoutValues({ command: 'x', env: 'odd' })).toEqual({ command: 'x', env: 'odd' })
})
