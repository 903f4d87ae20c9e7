import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { toasts } from './toasts.svelte'

const toastTexts = (): string[] => toasts.list.map((toast) => toast.text)

beforeEach(() => vi.useFakeTimers())
afterEach(() => {
  toasts.list = []
  vi.useRealTimers()
})

it('goes by itself, and with an offer only after a minute', () => {
  toasts.offer(toasts.show('saved'), { text: 'Undo', run: () => {} })
  toasts.show('plain')
  vi.advanceTimersByTime(59_000)
  expect(toastTexts()).toEqual(['saved'])
  vi.advanceTimersByTime(2000)
  expect(toastTexts()).toEqual([])
})

it('shows four at most, and keeps the one with an offer', () => {
  toasts.offer(toasts.show('saved'), { text: 'Undo', run: () => {} })
  for (const text of ['a', 'b', 'c', 'd']) toasts.show(text)
  expect(toastTexts()).toEqual(['saved', 'b', 'c', 'd'])
})
