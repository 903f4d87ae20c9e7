import { describe as group, expect, it } from 'vitest'
import document from '../../../../docs/config.schema.json'
import { parse } from './jsonc'
import { complete, describe, problemsOf, type Schema } from './schema'

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

group('problemsOf', () => {
  const problems = (text: string): string[] =>
    problemsOf(schema, parse(text)).map((it) => `${it.path}: ${it.kind} (${it.expected})`)

  it('finds nothing in what is right', () => {
    expect(
      problems(`{"$schema": "x", "//": 1, "naming": null, "mcpServers": {"a": {"command": "x", "args": ["y"], "env": {"A": "b", "C": null},
        "timeout": 5000, "roots": ["file:///", {"uri": "file:///x"}], "health": {"intervalMs": 0}}},
        "profiles": {"p": {"servers": ["*"], "tools": {"deny": ["a/*"]}}}}`),
    ).toEqual([])
  })

  it('finds what is wrong', () => {
    expect(problems('{"mcpServers": {"a": {"comand": "x"}}}')).toEqual(['mcpServers.a.comand: unknownKey (command)'])
    expect(problems('{"mcpServers": {"a": {"args": "x"}}}')).toEqual(['mcpServers.a.args: wrongType (array)'])
    expect(problems('{"naming": "dots"}')[0]).toContain('naming: wrongValue (double_underscore')
    expect(problems('{"journal": {"retentionDays": 0}}')[0]).toBe('journal.retentionDays: tooSmall (1)')
  })
})
