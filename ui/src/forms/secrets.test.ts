import { describe, expect, it } from 'vitest'
import type { Members } from './schema'
import { DOTS, hasSecrets, masked } from './secrets'

const password = { type: 'string', format: 'password' }

describe('secrets among arguments', () => {
  it.each<[string, Members, Members, Members]>([
    ['a password', { properties: { key: password, name: {} } }, { key: 'hush', name: 'ada' }, { key: DOTS, name: 'ada' }],
    ['what is written and never read', { properties: { key: { writeOnly: true } } }, { key: { a: 1 } }, { key: DOTS }],
    ['one in an object and a list', { properties: { at: { properties: { keys: { items: password } } } } }, { at: { keys: ['a', 'b'] } }, { at: { keys: [DOTS, DOTS] } }],
    ['one behind a reference', { $defs: { key: password }, properties: { key: { $ref: '#/$defs/key' } } }, { key: 'hush' }, { key: DOTS }],
    ['one of an alternative', { oneOf: [{ properties: { name: {} } }, { properties: { key: password } }] }, { key: 'hush', name: 'ada' }, { key: DOTS, name: 'ada' }],
    ['one in all parts', { allOf: [{ properties: { key: password } }] }, { key: 'hush' }, { key: DOTS }],
    ['one of any name', { additionalProperties: password }, { key: 'hush' }, { key: DOTS }],
    ['one of a name that fits', { patternProperties: { '^k': password } }, { key: 'hush' }, { key: DOTS }],
    ['one by its place in a list', { properties: { pair: { prefixItems: [{}, password] } } }, { pair: ['a', 'b', 'c'] }, { pair: ['a', DOTS, 'c'] }],
    ['one that is still empty', { properties: { key: password } }, { key: '' }, { key: '' }],
  ])('%s', (_, schema, value, shown) => {
    expect(masked(value, schema)).toEqual(shown)
  })

  it.each<[Members, boolean]>([
    [{ properties: { key: { type: 'string' } } }, false],
    [{ properties: { at: { properties: { key: password } } } }, true],
    [{ properties: { key: { writeOnly: true } } }, true],
  ])('%j: %s', (schema, has) => {
    expect(hasSecrets(schema)).toBe(has)
  })

  it('are not what is only called a password', () => {
    expect(masked({ password: 'x' }, { properties: { password: { type: 'string' } } })).toEqual({ password: 'x' })
  })

  it('comes to an end where a schema has none, and shows no secret then', () => {
    const endless = { $defs: { a: { anyOf: [{ $ref: '#/$defs/a' }, { $ref: '#/$defs/a' }, password] } }, properties: { key: { $ref: '#/$defs/a' } } }
    expect(masked({ key: 'hush' }, endless)).toEqual({ key: DOTS })
  })
})
