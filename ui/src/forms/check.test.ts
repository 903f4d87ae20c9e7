import { Validator } from '@cfworker/json-schema'
import { expect, test } from 'vitest'
import { texts } from '../texts'
import { found } from './check'

const errorsOf = (schema: object, value: unknown): ReturnType<typeof found> => found(new Validator(schema, '2020-12', false).validate(value).errors)

test('what is missing is said at its own place', () => {
  const { errors } = errorsOf({ properties: { a: { type: 'object', required: ['b/c'] } } }, { a: {} })
  expect([...errors]).toEqual([['/a/b~1c', [texts.forms.missing]]])
})

test('that no alternative fits is said once; what single ones lack stands apart', () => {
  const schema = { properties: { t: { oneOf: [{ required: ['path'] }, { required: ['url'] }] } } }
  const { errors, inner } = errorsOf(schema, { t: {} })
  expect([...errors]).toEqual([['/t', [texts.forms.noAlternative]]])
  expect([...inner.keys()]).toEqual(['/t/path', '/t/url'])
})

test('a member that is not allowed is said at the member', () => {
  const { errors } = errorsOf({ properties: { a: true }, additionalProperties: false }, { a: 1, b: 2 })
  expect([...errors]).toEqual([['/b', [texts.forms.notAllowed]]])
})

test('a value of the wrong type', () => {
  const { errors } = errorsOf({ type: 'object', properties: { n: { type: ['integer', 'null'] } } }, { n: 'x' })
  expect(errors.get('/n')).toEqual([texts.forms.expected(['whole number', 'null'])])
})
