/** Numbers, times and sizes as people read them. Units always; few digits. */
import { texts } from '../texts'
import { visible } from './visible'

export { visible }

const { locale, spans, sizes, justNow, ago: agoOf } = texts.format

/** `850 ms`, `3 s`, `4 min`, `3 h`, `5 d`: the largest unit that is not zero. */
export function span(ms: number): string {
  if (ms < 0) ms = 0
  if (ms < 1000) return `${Math.round(ms)} ${spans.ms}`
  const seconds = Math.floor(ms / 1000)
  if (seconds < 60) return `${seconds} ${spans.s}`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} ${spans.min}`
  const hours = Math.floor(minutes / 60)
  if (hours < 48) return `${hours} ${spans.h}`
  return `${Math.floor(hours / 24)} ${spans.d}`
}

/** A duration of a call: `0 ms`, `0.4 ms`, `12 ms`, `1.25 s`. An axis says how many decimals its steps have. */
export function latency(ms: number | null | undefined, decimals?: number): string {
  if (ms === undefined || ms === null) return '–'
  if (ms < 1000) return `${Number(ms.toFixed(decimals ?? (ms < 0.95 ? 1 : 0)))} ${spans.ms}`
  if (ms < 10_000) return `${(ms / 1000).toFixed(2)} ${spans.s}`
  if (ms < 60_000 || decimals !== undefined) return `${(ms / 1000).toFixed(1)} ${spans.s}`
  return span(ms)
}

/** How long ago, for the relative times of the page. */
export function ago(then: number, now: number): string {
  const passed = now - then
  return passed < 1000 ? justNow : agoOf(span(passed))
}

/** `512 B`, `31 MB`: decimal units. */
export function bytes(count: number | null | undefined): string {
  if (count === undefined || count === null) return '–'
  if (count < 1000) return `${count} ${sizes[0]}`
  let value = count / 1000
  let unit = 1
  while (value >= 999.5 && unit < sizes.length - 1) {
    value /= 1000
    unit += 1
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${sizes[unit]}`
}

/** Creating a formatter is slow. */
const counts = new Intl.NumberFormat(locale)

/** `1,234` */
export function count(value: number): string {
  return counts.format(value)
}

/** A rate per minute: `0`, `0.05`, `0.5`, `142`. An axis says how many decimals its steps have. */
export function rate(perMinute: number, decimals = perMinute < 1 ? 2 : perMinute < 10 ? 1 : 0): string {
  return perMinute.toLocaleString(locale, { maximumFractionDigits: decimals })
}

/** How many decimals a number has. */
export function decimalsOf(value: number): number {
  return String(value).split('.')[1]?.length ?? 0
}

/** The exact local time, for titles. */
export function exact(then: number): string {
  const date = new Date(then)
  return `${day(then)} ${clockTime(then)}.${String(date.getMilliseconds()).padStart(3, '0')}`
}

/** `14:03:22`. Formatters of the browser cost a hundred times as much, which long lists feel. */
export function clockTime(then: number): string {
  const date = new Date(then)
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
}

/** `2026-11-24`, the local day. */
export function day(then: number): string {
  const date = new Date(then)
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
}

function two(value: number): string {
  return value < 10 ? `0${value}` : String(value)
}

/** RFC 3339 to milliseconds; `undefined` where there is none. */
export function time(text: string | null | undefined): number | undefined {
  if (!text) return undefined
  const value = Date.parse(text)
  return Number.isNaN(value) ? undefined : value
}

/** The first line of a text, for rows. */
export function firstLine(text: string): string {
  return visible(text.split('\n', 1)[0] ?? '')
}
