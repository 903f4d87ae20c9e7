import { describe, expect, it } from 'vitest'
import { counts, diffLines, hunks } from './diff'

const show = (before: string, after: string): string[] =>
  diffLines(before, after).map((line) => `${{ same: ' ', added: '+', removed: '-' }[line.kind]}${line.text}`)

describe('diffLines', () => {
  it('finds the shortest difference', () => {
    expect(show('a\nb\nc\nd', 'a\nc\nx\nd')).toEqual([' a', '-b', ' c', '+x', ' d'])
    expect(show('a', 'a')).toEqual([' a'])
    expect(show('', 'a')).toEqual(['-', '+a'])
  })

  it('numbers the lines of both texts', () => {
    const lines = diffLines('a\nb\nc', 'a\nc')
    expect(lines.map((line) => [line.before, line.after])).toEqual([[1, 1], [2, undefined], [3, 2]])
  })

  it('gives both texts back', () => {
    let seed = 3
    const random = (below: number): number => (seed = (seed * 1103515245 + 12345) % 2147483648) % below
    for (let round = 0; round < 200; round += 1) {
      const text = (): string => Array.from({ length: random(12) }, () => 'abc'[random(3)]).join('\n')
      const [before, after] = [text(), text()]
      const lines = diffLines(before, after)
      expect(lines.filter((line) => line.kind !== 'added').map((line) => line.text).join('\n')).toBe(before)
      expect(lines.filter((line) => line.kind !== 'removed').map((line) => line.text).join('\n')).toBe(after)
    }
  })

  it('gives up the search where everything differs', () => {
    const many = (word: string): string => Array.from({ length: 3000 }, (_, index) => `${word} ${index}`).join('\n')
    expect(counts(diffLines(many('a'), many('b')))).toEqual({ added: 3000, removed: 3000 })
  })
})

describe('hunks', () => {
  it('shows some lines around each difference', () => {
    const before = Array.from({ length: 40 }, (_, index) => String(index)).join('\n')
    const after = before.replace('\n5\n', '\nfive\n').replace('\n8\n', '\neight\n').replace('\n30\n', '\nthirty\n')
    const found = hunks(diffLines(before, after))
    expect(found.map((hunk) => [hunk[0]?.text, hunk.at(-1)?.text])).toEqual([['2', '11'], ['27', '33']])
  })
})
