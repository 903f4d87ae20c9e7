import { describe, expect, it } from 'vitest'
import { copyOf, isExactNumber, numberOf, parseJson, readJson, rounded } from './json'

const LARGE = /^This number is too large for the browser, and would be changed: /
/** Browsers have it; Node has it since 21. */
const isKept = 'rawJSON' in JSON

it.each([
  '{}',
  '[1, -2.5, 0, 1e3, -0.1, 9007199254740991, -9007199254740991]',
  '9007199254740992',
  '12345678901234567000',
  '1.5e300',
  '12345678901234567890e-5',
  '0.1234567890123456789',
  '{"n": "12345678901234567890", "12345678901234567890": "\\"12345678901234567890"}',
  '["a\\\\", "\\u00e4 1e999"]',
])('takes %s', (text) => {
  expect(parseJson(text)).toEqual(JSON.parse(text))
  expect(readJson(text)).toEqual(JSON.parse(text))
})

const LARGE_NUMBERS = [
  ['{"n":12345678901234567890}', '12345678901234567890'],
  ['-9007199254740993', '-9007199254740993'],
  // The browser holds this one, but writes other digits.
  ['12345678901234567168', '12345678901234567168'],
  // Written as 1e+21, it would be no whole number for some.
  ['1000000000000000000000', '1000000000000000000000'],
  ['{"a":[{"b\\\\":[1,{"c":9007199254740993}]}]}', '9007199254740993'],
] as const

describe.runIf(isKept)('a browser that keeps digits', () => {
  it.each(LARGE_NUMBERS)('keeps those of %s', (text, number) => {
    expect(JSON.stringify(parseJson(text))).toBe(text)
    expect(JSON.stringify(readJson(text))).toBe(text)
    expect(JSON.stringify(copyOf(readJson(text)))).toBe(text)
    expect(JSON.stringify(numberOf(number))).toBe(number)
    expect(rounded(readJson(text))).toEqual(JSON.parse(text))
  })

  it('keeps what no number can hold where it is read', () => {
    for (const text of ['{"a":1e400,"b":1}', '[-1e400,2]', '1E+400']) expect(JSON.stringify(readJson(text))).toBe(text)
  })

  it('reads what is nested deeply', () => {
    const text = `${'['.repeat(20_000)}12345678901234567890${']'.repeat(20_000)}`
    expect(Array.isArray(readJson(text))).toBe(true)
  })

  it('tells such a number from an object', () => {
    expect(isExactNumber(readJson('9007199254740993'))).toBe(true)
    for (const value of [1, null, undefined, '9007199254740993', {}, { rawJSON: '1' }]) expect(isExactNumber(value)).toBe(false)
  })
})

describe.skipIf(isKept)('a browser that does not keep digits', () => {
  it.each(LARGE_NUMBERS)('refuses %s where it is typed, and rounds it where it is read', (text, number) => {
    expect(() => parseJson(text)).toThrow(LARGE)
    expect(() => parseJson(text)).toThrow(number)
    expect(numberOf(number)).toBeUndefined()
    expect(readJson(text)).toEqual(JSON.parse(text))
  })
})

it('refuses what no number can hold', () => {
  expect(() => parseJson('1e400')).toThrow(LARGE)
  expect(numberOf('1e400')).toBeUndefined()
  for (const text of ['nonsense', '+12345678901234567890', '00123456789012345678']) expect(numberOf(text)).toBeUndefined()
})

it('says what is no JSON', () => {
  for (const text of ['', '{"n": ', '01', 'nonsense']) expect(() => parseJson(text)).toThrow(/^This is no JSON: ./)
})

it('reads long texts', () => {
  const long = JSON.stringify({ text: '\\"'.repeat(3e6), list: Array.from({ length: 1e5 }, (_, index) => index) })
  expect(parseJson(long)).toBeTruthy()
})
