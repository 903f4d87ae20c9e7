import { expect, it } from 'vitest'
import { diff, fold, type DiffLine } from './diff'

const show = (lines: DiffLine[]): string =>
  lines.map((line) => (line.kind === 'same' ? `=${line.left}` : `-${line.left ?? ''}+${line.right ?? ''}`)).join(' ')

it.each([
  ['a b c', 'a b c', '=a =b =c'],
  ['a b c', 'a x c', '=a -b+x =c'],
  ['a c', 'a b c', '=a -+b =c'],
  ['a b', '', '-a+ -b+'],
  ['x a y b z', 'a b', '-x+ =a -y+ =b -z+'],
])('compares %s with %s', (before, after, expected) => {
  const words = (text: string): string[] => text.split(' ').filter(Boolean)
  expect(show(diff(words(before), words(after)))).toBe(expected)
})

it('gives up on what would take too long, and stays whole', () => {
  const lines = (word: string): string[] => Array.from({ length: 5000 }, (_, index) => `${word}${index}`)
  const found = diff(lines('a'), lines('b'))
  expect(found).toHaveLength(5000)
  expect(found.every((line) => line.kind === 'changed')).toBe(true)
})

it('folds what is far from a change', () => {
  const before = Array.from({ length: 20 }, (_, index) => `${index}`)
  const after = before.with(10, 'x')
  expect(fold(diff(before, after)).map((line) => line.kind)).toEqual([
    'fold', 'same', 'same', 'same', 'changed', 'same', 'same', 'same', 'fold',
  ])
})
