import { expect, it } from 'vitest'
import { commandOf, isKeptApart, lacksArguments, requestOf } from './commands'

const call = { server: 'files', tool: 'read', method: 'tools/call' }

it('writes the command of each method', () => {
  expect(commandOf(call, { path: 'a b' })).toBe(`mainstay call files/read --args '{"path":"a b"}'`)
  expect(commandOf(call, {})).toBe('mainstay call files/read')
  expect(commandOf({ ...call, method: 'resources/read', tool: 'file:///x' }, null)).toBe('mainstay read files file:///x')
  expect(commandOf({ ...call, method: 'prompts/get', tool: 'greet' }, { name: 'Ada L' })).toBe("mainstay prompts get files/greet 'name=Ada L'")
  expect(commandOf({ ...call, method: 'prompts/get', tool: 'greet' }, { of: { a: 1 } })).toBe(`mainstay prompts get files/greet 'of={"a":1}'`)
  expect(commandOf({ ...call, server: null }, {})).toBeUndefined()
})

it('writes the request', () => {
  const request = requestOf(call, { a: 1 }, 'http://127.0.0.1:7420')
  expect(request).toContain(`-d '{"tool":"files/read","arguments":{"a":1}}'`)
  expect(request).toContain('http://127.0.0.1:7420/api/mcp-tools/call')
  expect(requestOf({ ...call, server: null }, {}, '')).toBeUndefined()
})

it('writes nothing that would run another call: the arguments are not in the record', () => {
  const long = { ...call, arguments_cid: 'bafy' }
  for (const one of [long, { ...long, method: 'prompts/get' }, { ...call, arguments_bytes: 17 }]) {
    expect(commandOf(one, null)).toBeUndefined()
    expect(requestOf(one, null, '')).toBeUndefined()
    expect(commandOf(one, { a: '1' })).toBeDefined()
    expect(requestOf(one, { a: '1' }, '')).toBeDefined()
  }
  expect(requestOf({ ...long, method: 'resources/read' }, null, '')).toBeDefined()
})

it('tells arguments that are kept apart from those that are not kept', () => {
  expect(isKeptApart('bafy', 2_000_000)).toBe(true)
  expect(isKeptApart('bafy', 17)).toBe(false)
  expect(isKeptApart(undefined, 2_000_000)).toBe(false)
  expect(lacksArguments({ arguments_bytes: 17 }, null)).toBe(true)
  // There were none.
  expect(lacksArguments({ arguments_bytes: 2 }, null)).toBe(false)
  expect(lacksArguments({}, null)).toBe(false)
  expect(lacksArguments({ arguments_bytes: 17 }, {})).toBe(false)
})
