/** Dates and times of day between a schema's formats (RFC 3339) and the pickers of browsers. */

const TIME = /^(\d\d:\d\d(?::\d\d)?)(?:\.\d+)?(Z|[+-]\d\d:\d\d)?$/i
const DAY = /^\d{4}-\d\d-\d\d$/

export type Picker = 'date' | 'time' | 'datetime-local'

export function pickerOf(format: string): Picker | undefined {
  return format === 'date' || format === 'time' ? format : format === 'date-time' ? 'datetime-local' : undefined
}

/** What a picker shows for a value; `undefined` where it cannot show it, which is then edited as text. */
export function toPicker(picker: Picker, value: string): string | undefined {
  if (value === '') return ''
  if (picker === 'date') return DAY.test(value) ? value : undefined
  if (picker === 'time') return TIME.exec(value)?.[1]
  const at = /^\d{4}-\d\d-\d\dT/i.test(value) ? Date.parse(value) : NaN
  return Number.isNaN(at) ? undefined : local(new Date(at))
}

/** The value for what was picked. A time of day keeps the zone that it had, else it is one of UTC. */
export function fromPicker(picker: Picker, picked: string, before: string): string {
  if (picked === '' || picker === 'date') return picked
  const whole = /:\d\d:\d\d/.test(picked) ? picked : `${picked}:00`
  if (picker === 'time') return `${/^\d\d:\d\d$/.test(picked) ? `${picked}:00` : picked}${TIME.exec(before)?.[2] ?? 'Z'}`
  const at = new Date(whole)
  return Number.isNaN(at.getTime()) ? '' : at.toISOString().replace(/\.000Z$/, 'Z')
}

/** As the field of the browser has it: local, without a zone. */
function local(date: Date): string {
  const two = (value: number): string => String(value).padStart(2, '0')
  const day = `${String(date.getFullYear()).padStart(4, '0')}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
  return `${day}T${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
}
