import { expect, it } from 'vitest'
import { fromPicker, pickerOf, toPicker } from './moments'

it('has a picker for each format of time', () => {
  expect(['date', 'time', 'date-time', 'duration', ''].map(pickerOf)).toEqual(['date', 'time', 'datetime-local', undefined, undefined])
})

it('shows a moment in local time and gives it back as the same moment', () => {
  const pickerText = toPicker('datetime-local', '2026-01-31T12:00:00Z') ?? ''
  expect(new Date(pickerText).getTime()).toBe(Date.parse('2026-01-31T12:00:00Z'))
  expect(fromPicker('datetime-local', pickerText, '')).toBe('2026-01-31T12:00:00Z')
  expect(fromPicker('datetime-local', pickerText.slice(0, 16), '')).toBe('2026-01-31T12:00:00Z')
})

it('keeps the zone of a time of day', () => {
  expect(toPicker('time', '12:30:05.5+02:00')).toBe('12:30:05')
  expect(fromPicker('time', '13:00', '12:30:05+02:00')).toBe('13:00:00+02:00')
  expect(fromPicker('time', '13:00:07', '')).toBe('13:00:07Z')
})

it('leaves what it cannot show to a field of text', () => {
  expect(toPicker('date', 'tomorrow')).toBeUndefined()
  expect(toPicker('datetime-local', '2026-13-99T00:00:00Z')).toBeUndefined()
  expect(toPicker('time', 'noon')).toBeUndefined()
  expect(fromPicker('date', '', '2026-01-31')).toBe('')
})
