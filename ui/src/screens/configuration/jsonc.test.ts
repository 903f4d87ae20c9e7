import { describe, expect, it } from 'vitest'
import { find, findDotted, lineAt, offsetOf, parse, placeAt, valueOf } from './jsonc'

const text = `{
  // servers
  "mcpServers": {
    "a.b": { "command": "x", "args": ["1", 'two',], },
  },
  profiles: null, /* nothing */
}
`

describe('parse', () => {
  it('reads JSON with the liberties of JSON5', () => {
    const document = parse(text)
    expect(document.problems).toEqual([])
    expect(valueOf(document.root!)).toEqual({ mcpServers: { 'a.b': { command: 'x', args: ['1', 'two'] } }, profiles: null })
    expect(document.comments.map((it) => text.slice(it.from, it.to))).toEqual(['// servers', '/* nothing */'])
  })

  it('reads escapes', () => {
    const json = JSON.stringify({ a: 'quote " \\ \n ü \u2028 \u0001' })
    expect(valueOf(parse(json).root!)).toEqual(JSON.parse(json))
  })

  it.each([
    ['{', 'unclosed'],
    ['{"a"', 'expectedColon'],
    ['{"a": }', 'expectedValue'],
    ['{"a": 1 "b": 2}', 'expectedComma'],
    ['{"a": 1, "a": 2}', 'duplicate'],
    ['{"a": [1}', 'unclosed'],
    ['{"a": "x\n}', 'unclosed'],
    ['{} x', 'unexpected'],
    ['{,}', 'expectedKey'],
  ])('goes on after what is wrong in %s', (wrong, message) => {
    expect(parse(wrong).problems.map((it) => it.message)).toContain(message)
  })

  it('takes a member whose value is missing for what it is', () => {
    const document = parse('{\n "a": \n "b": 2\n}')
    expect(valueOf(document.root!)).toEqual({ b: 2 })
  })

  it('ends on every text', () => {
    const signs = ['{', '}', '[', ']', '"', "'", ':', ',', 'a', '\\', '/', '*', '\n', ' ']
    let seed = 7
    for (let round = 0; round < 3000; round += 1) {
      let wild = ''
      for (let index = 0; index < round % 24; index += 1) {
        seed = (seed * 1103515245 + 12345) % 2147483648
        wild += signs[seed % signs.length]
      }
      const document = parse(wild)
      for (let at = 0; at <= wild.length; at += 1) placeAt(document, at)
      expect(document.root?.to ?? 0).toBeLessThanOrEqual(wild.length)
    }
  })

  it('stops at a depth that no configuration has', () => {
    expect(parse('['.repeat(100_000)).problems.map((it) => it.message)).toContain('tooDeep')
  })
})

describe('places', () => {
  it('finds paths as findings write them', () => {
    const document = parse(text)
    const at = (path: string): string => {
      const place = findDotted(document.root, path)!
      return text.slice(place.from, place.to)
    }
    expect(at('mcpServers.a.b.args')).toBe('"args"')
    expect(at('mcpServers.a.b.args[1]')).toBe("'two'")
    expect(at('mcpServers.a.b.args.1')).toBe("'two'")
    expect(at('mcpServers.a.b.missing')).toBe('"a.b"')
    expect(at('nothing')).toBe('{')
    expect(find(document.root, ['mcpServers', 'a.b', 'args', 0])?.text).toBe('1')
  })

  const place = (marked: string): unknown => {
    const at = marked.indexOf('|')
    const found = placeAt(parse(marked.replace('|', '')), at)
    return found && [found.kind, ...found.path]
  }
  it.each([
    ['{|}', ['key']],
    ['{"a|"}', ['key']],
    ['{"a": |}', ['value', 'a']],
    ['{"a": "x|"}', ['value', 'a']],
    ['{"a": {|}}', ['key', 'a']],
    ['{"a": {"b": 1, |}}', ['key', 'a']],
    ['{"a": [|]}', ['value', 'a', 0]],
    ['{"a": [1, |]}', ['value', 'a', 1]],
    ['{"a": [{"b|": 1}]}', ['key', 'a', 0]],
    ['{"a": {|', ['key', 'a']],
    ['{"a": |\n "b": 1}', ['value', 'a']],
    ['{"a": 1}|', undefined],
    ['{ // x|\n}', undefined],
  ])('knows what is typed in %s', (marked, expected) => {
    expect(place(marked)).toEqual(expected)
  })

  it('counts lines and columns from 1', () => {
    expect(lineAt('ab\ncd', 4)).toEqual({ line: 2, column: 2 })
    expect(offsetOf('ab\ncd', 2, 2)).toBe(4)
    expect(offsetOf('ab\ncd', 9, 9)).toBe(5)
    expect(offsetOf('ab\ncd', 1, 99)).toBe(2)
  })
})
