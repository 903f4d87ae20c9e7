import { describe, expect, it } from 'vitest'
import { filled } from './filled'
import { initial, type Members } from './schema'

const list = (items: unknown): Members => ({ type: 'object', properties: { list: { type: 'array', items, minItems: 1 } }, required: ['list'] })

describe('what a form holds before anything was typed', () => {
  it.each<[string, Members, Members, boolean]>([
    ['a list of texts', list({ type: 'string' }), {}, false],
    ['a list of numbers', list({ type: 'integer' }), {}, false],
    ['a list of choices', list({ enum: ['a', 'b'] }), {}, false],
    ['a list that may hold null', list({ type: ['string', 'null'] }), { list: [null] }, true],
    ['a list of objects', list({ type: 'object', properties: { x: { type: 'number' } }, required: ['x'] }), { list: [{}] }, false],
    ['nothing required', { type: 'object', properties: { text: { type: 'string' } } }, {}, true],
    ['a default', { type: 'object', properties: { text: { type: 'string', default: 'a' } }, required: ['text'] }, { text: 'a' }, true],
    ['a text that is required', { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] }, {}, false],
  ])('%s', (_, schema, value, isComplete) => {
    const first = initial(schema, schema, true) as Members
    expect(filled(first, schema)).toEqual({ value, isComplete })
  })
})

describe('what was filled in', () => {
  const schema = list({ type: 'string' })
  it.each<[Members, Members, boolean]>([
    [{ list: ['a'] }, { list: ['a'] }, true],
    [{ list: [''] }, { list: [''] }, true],
    [{ list: ['a', null] }, { list: ['a'] }, false],
    [{ list: [] }, { list: [] }, false],
    // No list at all: as it is, and the check of the schema says what is wrong.
    [{ list: 'a' }, { list: 'a' }, true],
    [{ list: ['a'], more: null }, { list: ['a'], more: null }, true],
  ])('%j', (value, kept, isComplete) => {
    expect(filled(value, schema)).toEqual({ value: kept, isComplete })
  })

  it('follows the alternative that the value looks like, and comes to an end', () => {
    const endless: Members = { $defs: { a: { anyOf: [{ $ref: '#/$defs/a' }, list({ type: 'string' })] } }, anyOf: [{ $ref: '#/$defs/a' }] }
    expect(filled({ list: [null] }, { anyOf: [{ type: 'object', properties: { other: {} }, required: ['other'] }, schema] })).toEqual({ value: {}, isComplete: false })
    expect(filled({ list: ['a'] }, endless)).toEqual({ value: { list: ['a'] }, isComplete: true })
  })
})
