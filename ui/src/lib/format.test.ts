import { expect, test } from 'vitest'
import { texts } from '../texts'
import { uncoloured } from './visible'
import { ago, bytes, decimalsOf, latency, rate, span } from './format'

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

test('ticks have the decimals of their step', () => {
  const ticks = (format: (value: number, decimals: number) => string, step: number): string[] =>
    [0, 1, 2, 3, 4, 5].map((index) => format(index * step, decimalsOf(step)))
  expect(ticks(rate, 0.25)).toEqual(['0', '0.25', '0.5', '0.75', '1', '1.25'])
  expect(ticks(rate, 0.025)).toEqual(['0', '0.025', '0.05', '0.075', '0.1', '0.125'])
  expect(ticks(rate, 2.5)).toEqual(['0', '2.5', '5', '7.5', '10', '12.5'])
  expect(ticks(rate, 500)).toEqual(['0', '500', '1,000', '1,500', '2,000', '2,500'])
  expect(ticks(latency, 0.5)).toEqual(['0 ms', '0.5 ms', '1 ms', '1.5 ms', '2 ms', '2.5 ms'])
  expect(ticks(latency, 20_000)).toEqual(['0 ms', '20.0 s', '40.0 s', '60.0 s', '80.0 s', '100.0 s'])
})

test('rates have few digits', () => {
  expect([0, 1 / 60, 0.5, 0.996, 1.25, 9.96, 12.5, 1234].map((it) => rate(it))).toEqual(['0', '0.02', '0.5', '1', '1.3', '10', '13', '1,234'])
})

test('colours for terminals are taken away, and nothing else', () => {
  expect(uncoloured('\u001b[31mError:\u001b[0m [1m] \u001b[1;38;5;12mx\u001b[m')).toBe('Error: [1m] x')
  expect(uncoloured('\u001b]8;;https://x\u0007')).toBe('\u001b]8;;https://x\u0007')
})
