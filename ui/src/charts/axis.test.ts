import { expect, it } from 'vitest'
import { ticks } from './axis'

it('places ticks at round local times', () => {
  const since = new Date(2026, 10, 24, 13, 52, 10).getTime()
  expect(ticks(since, since + 3_600_000, 8).map((tick) => tick.title)).toEqual(['14:00', '14:10', '14:20', '14:30', '14:40', '14:50'])
})

it('names the day at midnight', () => {
  const since = new Date(2026, 10, 24, 20, 0).getTime()
  expect(ticks(since, since + 8 * 3_600_000, 5).map((tick) => tick.title)).toEqual(['20:00', '22:00', '11-25', '02:00', '04:00'])
  expect(ticks(since, since + 7 * 86_400_000, 8).map((tick) => tick.title)).toHaveLength(7)
})
