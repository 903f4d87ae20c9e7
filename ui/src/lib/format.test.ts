import { expect, test } from 'vitest'
import { texts } from '../texts'
import { ago, bytes, latency, span } from './format'

test('spans have the largest unit that is not zero', () => {
  expect([0, 999, 1000, 59_999, 60_000, 3_600_000, 47 * 3_600_000, 48 * 3_600_000].map(span)).toEqual([
    '0 ms',
    '999 ms',
    '1 s',
    '59 s',
    '1 min',
    '1 h',
    '47 h',
    '2 d',
  ])
})

test('durations of calls have few digits', () => {
  expect([undefined, 0, 0.4, 12.3, 1250, 12_340, 61_000].map((it) => latency(it))).toEqual(['–', '0 ms', '0.4 ms', '12 ms', '1.25 s', '12.3 s', '1 min'])
})

test('times ago', () => {
  expect([ago(1000, 1500), ago(1000, 4000)]).toEqual(['just now', '3 s ago'])
})

test('sizes have decimal units, up to the last', () => {
  expect([undefined, 0, 999, 1000, 999_499, 999_500, 31_000_000, 5e15].map((it) => bytes(it))).toEqual([
    '–',
    '0 B',
    '999 B',
    '1.0 kB',
    '999 kB',
    '1.0 MB',
    '31 MB',
    '5000 TB',
  ])
  expect(texts.format.sizes).toHaveLength(5)
})
