import { describe, expect, test } from 'vitest'
import { alternativeOf, controlOf, initial, isMembers, unfit, withMember, type Schema } from './schema'

const kind = (schema: Schema, root: Schema = schema): string => controlOf(schema, root).kind

describe('controlOf', () => {
  test.each<[Schema, string]>([
    [{ type: 'string' }, 'text'],
    [{ type: 'integer' }, 'number'],
    [{ type: 'boolean' }, 'boolean'],
    [{ enum: ['a', 1, null] }, 'enum'],
    [{ oneOf: [{ const: 'a', title: 'A' }, { const: 'b' }] }, 'enum'],
    [{ const: 4 }, 'const'],
    [{ type: 'null' }, 'const'],
    [{ type: ['string', 'null'] }, 'choice'],
    [{ anyOf: [{ type: 'string' }, { type: 'number' }] }, 'choice'],
    [{ type: 'object' }, 'object'],
    [{ properties: { a: true } }, 'object'],
    [{ type: 'array', items: { type: 'string' } }, 'array'],
    [{ minimum: 3 }, 'number'],
    [{}, 'json'],
    [true, 'json'],
    [false, 'json'],
  ])('%j', (schema, expected) => expect(kind(schema)).toBe(expected))

  test('alternatives that only say what is required leave the properties as they are', () => {
    expect(kind({ type: 'object', properties: { a: true, b: true }, anyOf: [{ required: ['a'] }, { required: ['b'] }] })).toBe('object')
  })

  test('references within the document, and in circles', () => {
    const root = { $defs: { a: { type: 'string' }, loop: { $ref: '#/$defs/loop' }, 'x/y': { $ref: '#/$defs/a' }, named: { $anchor: 'n', type: 'boolean' } } }
    expect(kind({ $ref: '#/$defs/x~1y' }, root)).toBe('text')
    expect(kind({ $ref: '#n' }, root)).toBe('boolean')
    expect(controlOf({ $ref: '#/$defs/loop' }, root)).toEqual({ kind: 'json', why: 'reference' })
    expect(controlOf({ $ref: 'https://example.com/a' }, root)).toEqual({ kind: 'json', why: 'reference' })
    expect(controlOf({ $ref: '#/$defs/__proto__' }, root)).toEqual({ kind: 'json', why: 'reference' })
  })

  test('allOf that doubles at each step ends', () => {
    const $defs: Record<string, Schema> = { d40: { type: 'string' } }
    for (let i = 0; i < 40; i += 1) $defs[`d${i}`] = { allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] }
    expect(controlOf({ $ref: '#/$defs/d0' }, { $defs })).toEqual({ kind: 'json', why: 'deep' })
  })

  test('allOf joins properties and what is required', () => {
    const control = controlOf({ allOf: [{ type: 'object', properties: { a: true }, required: ['a'] }, { properties: { b: true }, required: ['b'] }] }, true)
    if (control.kind !== 'object') throw new Error(control.kind)
    expect(control.properties.map(([name]) => name).sort()).toEqual(['a', 'b'])
    expect([...control.required].sort()).toEqual(['a', 'b'])
  })
})

describe('unfit', () => {
  test.each<[unknown, string | undefined]>([
    [{ type: 'object' }, undefined],
    [{}, undefined],
    [{ type: 'string' }, 'noObject'],
    [{ $ref: 'elsewhere' }, 'reference'],
    [false, 'never'],
    [null, 'never'],
    [{ type: 'object', description: 'x'.repeat(600_000) }, 'large'],
  ])('%#', (schema, expected) => expect(unfit(schema)).toBe(expected))
})

describe('initial', () => {
  test('defaults and what is required, nothing else', () => {
    const schema = {
      type: 'object',
      required: ['a', 'in', 'list'],
      properties: {
        a: { type: 'string' },
        b: { default: 3 },
        c: { type: 'object', properties: { d: { default: 1 } } },
        in: { type: 'object', properties: { e: { default: true } } },
        list: { type: 'array', minItems: 1, items: { default: 'x' } },
      },
    }
    expect(initial(schema, schema, true)).toEqual({ b: 3, in: { e: true }, list: ['x'] })
  })

  test('an object that requires itself ends', () => {
    const schema = { $ref: '#/$defs/n', $defs: { n: { type: 'object', required: ['n'], properties: { n: { $ref: '#/$defs/n' } } } } }
    expect(isMembers(initial(schema, schema, true))).toBe(true)
  })
})

test('withMember keeps the order, and takes any name', () => {
  expect(Object.keys(withMember({ a: 1, b: 2 }, 'a', 3))).toEqual(['a', 'b'])
  expect(withMember({ a: 1, b: 2 }, 'a', undefined)).toEqual({ b: 2 })
  expect(JSON.stringify(withMember({}, '__proto__', 'x'))).toBe('{"__proto__":"x"}')
})

test('alternativeOf finds what a value looks like', () => {
  const shapes = [
    { type: 'object', properties: { kind: { const: 'circle' }, r: { type: 'number' } }, required: ['kind', 'r'] },
    { type: 'object', properties: { kind: { const: 'box' }, w: { type: 'number' } }, required: ['kind', 'w'] },
  ]
  expect(alternativeOf(shapes, true, { kind: 'box', w: 1 })).toBe(1)
  expect(alternativeOf([{ type: 'string' }, { type: 'null' }], true, null)).toBe(1)
  expect(alternativeOf([{ type: 'null' }, { type: 'integer' }], true, 4)).toBe(1)
})
