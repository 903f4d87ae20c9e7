import { expect, it } from 'vitest'
import { screens } from '../lib/navigation'
import { keyRows, rowFor } from './keys'

const press = (key: string, held: { ctrlKey?: boolean; metaKey?: boolean; altKey?: boolean } = {}) => ({ key, ctrlKey: false, metaKey: false, altKey: false, ...held })

it('gives each key one row', () => {
  const keys = keyRows().flatMap((row) => (row.keys ?? []).map((key) => `${row.when ?? 'alone'} ${key}`))
  expect(new Set(keys).size).toBe(keys.length)
})

it('opens each screen by its key after g, and not without it', () => {
  for (const screen of screens()) {
    expect(rowFor(press(screen.key), false, true)?.text).toBe(screen.title)
    expect(rowFor(press(screen.key), false, false)).toBeUndefined()
  }
})

it('opens the palette from everywhere, and has no other key in a field', () => {
  expect(rowFor(press('K', { ctrlKey: true }), true, false)?.label).toBe('Ctrl K')
  expect(rowFor(press('k', { metaKey: true }), false, false)?.label).toBe('Ctrl K')
  expect(rowFor(press('/'), true, false)).toBeUndefined()
  expect(rowFor(press('s'), true, true)).toBeUndefined()
})

it('leaves other keys with control or alt to the browser', () => {
  expect(rowFor(press('j', { ctrlKey: true }), false, false)).toBeUndefined()
  expect(rowFor(press('/', { altKey: true }), false, false)).toBeUndefined()
})

it('runs a key alone after g where no screen has it', () => {
  expect(rowFor(press('?'), false, true)?.label).toBe('?')
})
