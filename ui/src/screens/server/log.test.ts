import { expect, test } from 'vitest'
import { append, matching, MAX_LINES, written, type Line } from './log'
import { serverTexts } from './texts'

const line = (number: number, source: string, text: string): Line => ({ number, source, text, time: '2026-01-01T00:00:00Z' })

test('the oldest lines go', () => {
  const full = Array.from({ length: MAX_LINES }, (_, index) => line(index, 'stderr', `${index}`))
  const lines = append(full, [line(MAX_LINES, 'stderr', 'new'), line(MAX_LINES + 1, 'stderr', 'newer')])
  expect(lines).toHaveLength(MAX_LINES)
  expect(lines[0]?.number).toBe(2)
  expect(lines.at(-1)?.text).toBe('newer')
})

test('a source and a word choose lines', () => {
  const lines = [line(1, 'stderr', 'fatal: not a repository'), line(2, 'mainstay', 'Fatal'), line(3, 'stdout', 'hello')]
  expect(matching(lines, 'all', 'FATAL').map((it) => it.number)).toEqual([1, 2])
  expect(matching(lines, 'stderr', '').map((it) => it.number)).toEqual([1])
  expect(matching(lines, 'stdout', 'fatal')).toEqual([])
})

test('lines as a file, in their order', () => {
  const lines = [line(1, 'stderr', 'one'), line(2, 'mainstay', 'two')]
  expect(written(lines)).toBe('2026-01-01T00:00:00Z stderr one\n2026-01-01T00:00:00Z mainstay two\n')
})

test('one line is no lines', () => {
  const { logLines, missed } = serverTexts
  expect(['0', '1', '1,234'].map(logLines)).toEqual(['0 lines', '1 line', '1,234 lines'])
  expect([1, 2].map(missed).map((it) => it.slice(0, 12))).toEqual(['1 line came ', '2 lines came'])
})
