import { expect, it } from 'vitest'
import { parseJson } from './json'

const LARGE = /^This number is too large for the browser, and would be changed: /

it.each([
  '{}',
  '[1, -2.5, 0, 1e3, -0.1, 9007199254740991, -9007199254740991]',
  '9007199254740992',
  '12345678901234567000',
  '-10000000000000000000000000',
  '1.5e300',
  '12345678901234567890e-5',
  '0.1234567890123456789',
  '{"n": "12345678901234567890", "12345678901234567890": "\\"12345678901234567890"}',
  '["a\\\\", "\\u00e4 1e999"]',
])('takes %s', (text) => expect(parseJson(text)).toEqual(JSON.parse(text)))

it.each([
  ['{"n": 12345678901234567890}', '12345678901234567890'],
  ['-9007199254740993', '-9007199254740993'],
  // The browser holds this one, but writes other digits.
  ['12345678901234567168', '12345678901234567168'],
  ['{"a": [{"b\\\\": [1, {"c":9007199254740993}]}]}', '9007199254740993'],
  ['1e400', '1e400'],
])('refuses %s', (text, number) => {
  expect(() => parseJson(text)).toThrow(LARGE)
  expect(() => parseJson(text)).toThrow(number)
})

it('says what is no JSON', () => {
  for (const text of ['', '{"n": ', '01', 'nonsense']) expect(() => parseJson(text)).toThrow(/^This is no JSON: ./)
})

it('reads long texts', () => {
  const long = JSON.stringify({ text: '\\"'.repeat(3e6), list: Array.from({ length: 1e5 }, (_, index) => index) })
  expect(parseJson(long)).toBeTruthy()
})
