import { describe, expect, it } from 'vitest'
import type { Members } from './schema'
import { DOTS, hasSecrets, isSecret, masked } from './secrets'

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

  const text = { type: 'string' }
  it.each<[string, Members, Members, Members]>([
    ['a text', { properties: { password: text, name: text } }, { password: 'hush', name: 'ada' }, { password: DOTS, name: 'ada' }],
    ['an optional text', { properties: { apiKey: { anyOf: [text, { type: 'null' }] } } }, { apiKey: 'hush' }, { apiKey: DOTS }],
    ['the items of a list', { properties: { tokens: { type: 'array', items: text } } }, { tokens: ['a', 'b'] }, { tokens: [DOTS, DOTS] }],
    ['what no schema describes', { properties: { headers: { type: 'object' } } }, { headers: { Authorization: 'Bearer hush', Accept: '*' } }, { headers: { Authorization: DOTS, Accept: '*' } }],
  ])('are %s whose name says it', (_, schema, value, shown) => {
    expect(hasSecrets(value, schema)).toBe(true)
    expect(masked(value, schema)).toEqual(shown)
  })

  it('are no numbers, and none of what the schema lists', () => {
    const value = { secret: 5, token: 'short' }
    expect(masked(value, { properties: { secret: { type: 'integer' }, token: { enum: ['short', 'long'] } } })).toEqual(value)
  })

  // As in crates/core/src/redact/names.rs.
  it.each(['password', 'api_key', 'apiKey', 'X-API-Key', 'access_token', 'client_secret', 'GITHUB_TOKEN', 'db_passwd', 'credentials', 'Cookie', 'private_key'])('%s is a secret', (name) => {
    expect(isSecret(text, name)).toBe(true)
  })
  it.each(['key', 'keyboard', 'tokenizer', 'page_token', 'nextPageToken', 'max_tokens', 'author', ''])('%s is none', (name) => {
    expect(isSecret(text, name)).toBe(false)
  })

  it.each<[Members, boolean]>([
    [{ properties: { key: { type: 'string' } } }, false],
    [{ properties: { at: { properties: { key: password } } } }, true],
    [{ properties: { key: { writeOnly: true } } }, true],
  ])('%j: %s', (schema, has) => {
    expect(hasSecrets({}, schema)).toBe(has)
  })

  it('comes to an end where a schema has none, and shows no secret then', () => {
    const endless = { $defs: { a: { anyOf: [{ $ref: '#/$defs/a' }, { $ref: '#/$defs/a' }, password] } }, properties: { key: { $ref: '#/$defs/a' } } }
    expect(masked({ key: 'hush' }, endless)).toEqual({ key: DOTS })
  })
})
