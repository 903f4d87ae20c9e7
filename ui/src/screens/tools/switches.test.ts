import { expect, test } from 'vitest'
import { hiddenIn } from './hidden.svelte'
import { countsOf, disabledOf, isAvailable, offFor, withTool } from './switches'

test('a tool is switched off in the list that an entry has, and on again', () => {
  const off = withTool({ command: 'x', excludeTools: ['a'] }, 'b', false)
  expect(off).toEqual({ command: 'x', excludeTools: ['a', 'b'] })
  expect(disabledOf(off)).toEqual(['a', 'b'])
  expect(withTool(off, 'b', true)).toEqual({ command: 'x', excludeTools: ['a'] })
  expect(withTool({ command: 'x' }, 'b', false)).toEqual({ command: 'x', disabledTools: ['b'] })
  expect(withTool({ disabledTools: ['b'] }, 'b', true)).toEqual({})
})

test('of lists that allow, each restricts', () => {
  const entry = { allowedTools: ['a'], tools: ['*'] }
  expect(isAvailable(entry, 'a')).toBe(true)
  expect(isAvailable(entry, 'b')).toBe(false)
  expect(withTool(entry, 'b', true)).toEqual({ allowedTools: ['a', 'b'], tools: ['*'] })
})

test('switches of clients', () => {
  const switches = { clients: { cursor: { servers: [], tools: ['files/read'] }, codex: { servers: ['files'], tools: [] } } }
  expect(offFor(switches, 'files', 'read')).toEqual([
    { client: 'cursor', isServer: false },
    { client: 'codex', isServer: true },
  ])
  expect(countsOf(switches)('files', 'read')).toBe(2)
  expect(countsOf(switches)('other', 'read')).toBe(0)
})

test('what a configuration hides, in each shape that it has', () => {
  const entry = { command: 'x', disabledTools: ['a'] }
  const expected = [{ server: 'files', name: 'a' }]
  expect(hiddenIn({ mcpServers: { files: entry } })).toEqual(expected)
  expect(hiddenIn({ servers: [{ name: 'files', ...entry }] })).toEqual(expected)
  expect(hiddenIn([{ name: 'files', ...entry }, null])).toEqual(expected)
  expect(hiddenIn('text')).toEqual([])
})
