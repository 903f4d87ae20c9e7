import { Validator } from '@cfworker/json-schema'
import { afterEach, expect, test, vi } from 'vitest'
import { check, found } from './check'
import { formsTexts } from './texts'

const errorsOf = (schema: object, value: unknown): ReturnType<typeof found> => found(new Validator(schema, '2020-12', false).validate(value).errors)

test('what is missing is said at its own place', () => {
  const { errors } = errorsOf({ properties: { a: { type: 'object', required: ['b/c'] } } }, { a: {} })
  expect([...errors]).toEqual([['/a/b~1c', [formsTexts.missing]]])
})

test('that no alternative fits is said once; what single ones lack stands apart', () => {
  const schema = { properties: { t: { oneOf: [{ required: ['path'] }, { required: ['url'] }] } } }
  const { errors, inner } = errorsOf(schema, { t: {} })
  expect([...errors]).toEqual([['/t', [formsTexts.noAlternative]]])
  expect([...inner]).toEqual([
    ['/t/path', [{ message: formsTexts.missing, within: [['/t', 0]] }]],
    ['/t/url', [{ message: formsTexts.missing, within: [['/t', 1]] }]],
  ])
})

test('an error in a choice within a choice names the alternative of each', () => {
  const choice = (...oneOf: object[]): object => ({ oneOf })
  const schema = choice({ properties: { a: choice({ type: 'string' }, { type: 'object', required: ['n'] }) } }, { required: ['b'] })
  const { inner } = errorsOf(schema, { a: {} })
  expect(inner.get('/a/n')).toEqual([{ message: formsTexts.missing, within: [['', 0], ['/a', 1]] }])
  expect(inner.get('/b')).toEqual([{ message: formsTexts.missing, within: [['', 1]] }])
})

test('a member that is not allowed is said at the member', () => {
  const { errors } = errorsOf({ properties: { a: true }, additionalProperties: false }, { a: 1, b: 2 })
  expect([...errors]).toEqual([['/b', [formsTexts.notAllowed]]])
})

test('a value of the wrong type', () => {
  const { errors } = errorsOf({ type: 'object', properties: { n: { type: ['integer', 'null'] } } }, { n: 'x' })
  expect(errors.get('/n')).toEqual([formsTexts.expected(['whole number', 'null'])])
})

/** Workers that were made, and what they were asked. */
class SilentWorker {
  static made: SilentWorker[] = []
  questions: [string, string][] = []
  isEnded = false
  onmessage: ((message: { data: unknown }) => void) | null = null
  onerror: (() => void) | null = null
  constructor() {
    SilentWorker.made.push(this)
  }
  postMessage(question: [string, string]): void {
    this.questions.push(question)
  }
  terminate(): void {
    this.isEnded = true
  }
  answer(): void {
    const [schema, value] = this.questions.shift()!.map((text) => JSON.parse(text) as object)
    this.onmessage?.({ data: new Validator(schema!, '2020-12', false).validate(value).errors })
  }
}
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

test('each value gets its own findings, and one that takes for ever is given up', async () => {
  vi.useFakeTimers()
  vi.stubGlobal('Worker', SilentWorker)
  const schema = { properties: { mail: { format: 'email' } } }
  const fits = check(schema, { mail: 'ada@example.org' })
  const doesNot = check(schema, { mail: 'no address' })
  const [first] = SilentWorker.made
  first!.answer()
  expect((await fits).errors.size).toBe(0)
  first!.answer()
  expect([...(await doesNot).errors.keys()]).toEqual(['/mail'])

  // The limit counts from when the worker begins with a value.
  const slow = check(schema, {})
  const next = check(schema, {})
  vi.advanceTimersByTime(1500)
  first!.answer()
  expect((await slow).unchecked).toBe(false)
  vi.advanceTimersByTime(1500)
  expect(first!.isEnded).toBe(false)
  vi.advanceTimersByTime(500)
  expect(first!.isEnded).toBe(true)
  expect((await next).unchecked).toBe(true)

  const again = check(schema, {})
  expect(SilentWorker.made).toHaveLength(2)
  SilentWorker.made[1]!.answer()
  expect((await again).unchecked).toBe(false)
})
