import { describe, expect, it } from 'vitest'
import { setMember } from './edit'
import { parse, valueOf } from './jsonc'

const meaning = (text: string): unknown => valueOf(parse(text).root!)

describe('setMember', () => {
  it('inserts behind the last member, whose comment stays with it', () => {
    const before = '{\n  "mcpServers": {} // all\n}\n'
    const after = setMember(before, ['profiles', 'work'], { servers: ['a'] })
    expect(after).toBe(
      '{\n  "mcpServers": {}, // all\n  "profiles": {\n    "work": {\n      "servers": [\n        "a"\n      ]\n    }\n  }\n}\n',
    )
    expect(JSON.parse(after.replace(/\/\/.*/g, ''))).toEqual({ mcpServers: {}, profiles: { work: { servers: ['a'] } } })
  })

  it('keeps commas at the end where there are some', () => {
    const after = setMember('{\n\t"a": 1,\n}', ['b'], 2)
    expect(after).toBe('{\n\t"a": 1,\n\t"b": 2,\n}')
  })

  it('keeps the line ends of the file', () => {
    expect(setMember('{\r\n  "a": 1\r\n}', ['b'], { c: 2 })).toBe('{\r\n  "a": 1,\r\n  "b": {\r\n    "c": 2\r\n  }\r\n}')
  })

  it('inserts into an object on one line and into an empty one', () => {
    expect(setMember('{"a": 1}', ['b'], [2])).toBe('{"a": 1, "b": [2]}')
    expect(setMember('{ /* none */ }', ['b'], 2)).toBe('{ /* none */\n  "b": 2\n}')
  })

  it('replaces a value and nothing else', () => {
    const before = '{\n  "a": { // of a\n    "x": [1, 2], // of x\n    "y": 2\n  }\n}'
    expect(setMember(before, ['a', 'x'], [3])).toBe(
      '{\n  "a": { // of a\n    "x": [\n      3\n    ], // of x\n    "y": 2\n  }\n}',
    )
  })

  it.each([
    ['{\n  "a": 1, // one\n  "b": 2\n}', 'a', '{\n  "b": 2\n}'],
    ['{\n  "a": 1,\n  "b": 2\n}', 'b', '{\n  "a": 1\n}'],
    ['{\n  "a": 1, // one\n  "b": 2\n}', 'b', '{\n  "a": 1 // one\n}'],
    ['{"a": 1, "b": 2}', 'a', '{"b": 2}'],
    ['{"a": 1, "b": 2}', 'b', '{"a": 1 }'],
    ['{"a": 1}', 'a', '{}'],
    ['{"a": 1}', 'b', '{"a": 1}'],
  ])('deletes from %s', (before, name, after) => {
    expect(setMember(before, [name], undefined)).toBe(after)
  })

  it('makes an object of null', () => {
    expect(meaning(setMember('{"profiles": null}', ['profiles', 'a'], {}))).toEqual({ profiles: { a: {} } })
  })

  it('refuses what it cannot change with care', () => {
    expect(() => setMember('{"a": ', ['b'], 1)).toThrow()
    expect(() => setMember('[]', ['b'], 1)).toThrow()
    expect(() => setMember('{"a": 1}', ['a', 'b'], 1)).toThrow()
  })

  it('means what was set, whatever the text looked like', () => {
    const texts = ['{}', '{"a":{"b":1}}', '{\n"a": {"b": 1,},\n/* c */}', '{ "z": [1,\n2], "a": {}\n}', '{// x\n"a":{}}']
    for (const text of texts) {
      const old = meaning(text) as Record<string, Record<string, unknown>>
      expect(meaning(setMember(text, ['a', 'n'], { deep: ['ü"'] }))).toEqual({ ...old, a: { ...old.a, n: { deep: ['ü"'] } } })
      const { a: _, ...rest } = old
      expect(meaning(setMember(text, ['a'], undefined))).toEqual(rest)
    }
  })
})
