import { describe as group, expect, it } from 'vitest'
import document from '../../../../docs/config.schema.json'
import { parse } from './jsonc'
import { complete, describe, type Schema } from './schema'

const schema = document as unknown as Schema

const options = (marked: string): string[] => {
  const at = marked.indexOf('|')
  return complete(schema, parse(marked.replace('|', '')), at, ['files', 'git'])?.options.map((option) => option.label) ?? []
}

group('complete', () => {
  it('offers the keys that are not there yet', () => {
    const keys = options('{"mcpServers": {}, |}')
    expect(keys).toContain('journal')
    expect(keys).not.toContain('mcpServers')
    expect(options('{"mcpServers": {"a": {|}}}')).toContain('command')
    expect(options('{"servers": [{|}]}')).toContain('command')
  })

  it('offers entries to be filled in', () => {
    expect(options('{"mcpServers": {|}}')).toEqual(['new-server', 'new-remote-server'])
    expect(options('{"profiles": {|}}')).toEqual(['new-profile'])
  })

  it('offers values', () => {
    expect(options('{"naming": |}')).toEqual(['double_underscore', 'slash', 'none', 'mcp_prefix'])
    expect(options('{"mcpServers": {"a": {"enabled": |}}}')).toEqual(['true', 'false'])
    expect(options('{"profiles": {"p": {"servers": ["git", |]}}}')).toEqual(['files'])
    expect(options('{"profiles": {"p": {"ownTools": [|]}}}')).toContain('records')
  })

  it('replaces only the word that is typed, never the member behind it', () => {
    const replaced = (marked: string): string | undefined => {
      const at = marked.indexOf('|')
      const text = marked.replace('|', '')
      const found = complete(schema, parse(text), at, ['files'])
      return found && text.slice(found.from, found.to)
    }
    expect(replaced('{|"health": {}}')).toBe('')
    expect(options('{|"health": {}}')).not.toContain('health')
    expect(replaced('{"|"health": {}}')).toBe('"')
    expect(replaced('{"jou|"health": {}}')).toBe('"jou')
    expect(replaced('{"profiles": {"p": {"servers": ["f|"git"]}}}')).toBe('"f')
    expect(replaced('{"hea|lth": {}}')).toBe('"health"')
    expect(replaced('{"jou|""health": {}}')).toBe('"jou"')
  })

  it('writes a key with its colon once', () => {
    const at = (text: string, place: number): string | undefined =>
      complete(schema, parse(text), place, [])?.options.find((option) => option.label === 'journal')?.insert
    expect(at('{""}', 2)).toBe('"journal": {${}}')
    expect(at('{"": {}}', 2)).toBe('"journal"')
  })
})

group('describe', () => {
  it('knows what a key means', () => {
    expect(describe(schema, ['mcpServers', 'a', 'command'])).toBe('The program, without its arguments.')
    expect(describe(schema, ['nothing'])).toBeUndefined()
  })
})
