/**
 * What calls are filtered by. In the address each member is a parameter; in the field it is one text:
 * `server:git status:error since:1h read`.
 */
import type { Query } from '../../api/client'

/** Members that take several values, joined by commas. */
export const LISTS = ['server', 'tool', 'client', 'status', 'state'] as const
/** Members of one value. */
export const SINGLES = ['door', 'session', 'trace', 'since', 'until'] as const

export type ListKey = (typeof LISTS)[number]
export type SingleKey = (typeof SINGLES)[number]

export interface Filter {
  lists: Record<ListKey, readonly string[]>
  singles: Record<SingleKey, string>
  /** A part of server/tool, of the error or of the arguments. */
  text: string
  /** Words with an unknown key, as they were written. */
  unknown: string
}

export const STATUSES = ['ok', 'error', 'timeout', 'cancelled', 'unknown', 'refused', 'open'] as const
export const STATES = ['not_sent', 'sent', 'answered'] as const

export function empty(): Filter {
  return {
    lists: { server: [], tool: [], client: [], status: [], state: [] },
    singles: { door: '', session: '', trace: '', since: '', until: '' },
    text: '',
    unknown: '',
  }
}

export function isEmpty(filter: Filter): boolean {
  return filter.text + filter.unknown === '' && LISTS.every((key) => filter.lists[key].length === 0) && SINGLES.every((key) => filter.singles[key] === '')
}

/** Days that have a name. */
const WORDS = ['today', 'yesterday']

const isList = (key: string): key is ListKey => (LISTS as readonly string[]).includes(key)
const isSingle = (key: string): key is SingleKey => (SINGLES as readonly string[]).includes(key)

/** Words of a text; quotes hold a value with spaces together. */
function words(text: string): string[] {
  return text.match(/(?:[^\s"]|"[^"]*"?)+/g) ?? []
}

/** Values of a list; a comma within quotes is one of the value. */
function values(text: string): string[] {
  const parts = text.match(/(?:[^,"]|"[^"]*"?)+/g) ?? []
  return unique(parts.map((part) => part.replaceAll('"', '').trim()).filter((part) => part !== ''))
}

function unique(list: readonly string[]): string[] {
  return [...new Set(list)]
}

/** What every word with a key begins with: `text:` is one more way to write a text. */
export const KEYS = [...LISTS, ...SINGLES, 'text']

/** A word that looks like one with a key, and like no address. */
const KEYED = /^[a-z][\w-]+:(?!\/\/|:)./i

/** Reads the text of the field. What stands in quotes is text, whatever it looks like. */
export function parse(text: string): Filter {
  const filter = empty()
  const free: string[] = []
  const unknown: string[] = []
  for (const word of words(text)) {
    const at = word.indexOf(':')
    const key = word.slice(0, at).toLowerCase()
    const value = word.slice(at + 1)
    if (at > 0 && isList(key)) filter.lists[key] = unique([...filter.lists[key], ...values(value)])
    else if (at > 0 && isSingle(key)) filter.singles[key] = value.replaceAll('"', '')
    else if (key !== 'text' && KEYED.test(word)) unknown.push(word)
    else free.push((key === 'text' ? value : word).replaceAll('"', ''))
  }
  filter.text = free.join(' ').trim()
  filter.unknown = unknown.join(' ')
  return filter
}

/** The known key that is closest to a mistyped one; `undefined` if none is close. */
export function closestKey(key: string): string | undefined {
  const most = Math.floor((key.length + 1) / 3)
  const near = (known: string): number => (known.startsWith(key) || key.startsWith(known) ? 0 : distance(key, known))
  return KEYS.filter((candidate) => near(candidate) <= most).sort((one, other) => near(one) - near(other))[0]
}

/** The number of letters that differ. */
function distance(one: string, other: string): number {
  let row = [...other, ''].map((_, at) => at)
  for (const [at, letter] of [...one].entries()) {
    const next = [at + 1]
    for (const [to, its] of [...other].entries()) next.push(Math.min(next[to]! + 1, row[to + 1]! + 1, row[to]! + (letter === its ? 0 : 1)))
    row = next
  }
  return row.at(-1)!
}

/** A word of the field that is not typed to its end: it begins like a value that is known, and is none yet. */
export interface Unfinished {
  key: 'status' | 'state' | 'trace' | 'since' | 'until'
  value: string
  /** Values that the word may become; none for times and traces. */
  choices: readonly string[]
}

export function unfinished(filter: Filter): Unfinished | undefined {
  for (const [key, known] of [['status', STATUSES], ['state', STATES]] as const) {
    for (const value of filter.lists[key]) {
      const choices = known.filter((choice) => choice.startsWith(value))
      if (choices.length > 0 && !choices.some((choice) => choice === value)) return { key, value, choices }
    }
  }
  for (const key of ['since', 'until'] as const) {
    const value = filter.singles[key]
    const isBegun = /^-?\d[\d:.TZ+ -]*$/.test(value) || WORDS.some((word) => word !== value && word.startsWith(value))
    if (value && isBegun && timeOf(value, 0) === undefined) return { key, value, choices: [] }
  }
  const { trace } = filter.singles
  if (/^[\da-f]{1,31}$/i.test(trace)) return { key: 'trace', value: trace, choices: [] }
  return undefined
}

function quoted(value: string): string {
  return /[\s,"]/.test(value) ? `"${value.replaceAll('"', '')}"` : value
}

/** Writes a filter as the text of the field. */
export function format(filter: Filter): string {
  const lists = LISTS.filter((key) => filter.lists[key].length > 0).map((key) => `${key}:${filter.lists[key].map(quoted).join(',')}`)
  const singles = SINGLES.filter((key) => filter.singles[key] !== '').map((key) => `${key}:${quoted(filter.singles[key])}`)
  const { text, unknown } = filter
  const isPlain = parse(text).text === text
  return [...lists, ...singles, unknown, isPlain ? text : `"${text.replaceAll('"', '')}"`].filter(Boolean).join(' ')
}

/** Reads the parameters of an address. `q` is a whole text. */
export function fromQuery(query: URLSearchParams): Filter {
  const whole = query.get('q')
  const filter = whole ? parse(whole) : empty()
  for (const key of LISTS) {
    const found = query.getAll(key).flatMap(values)
    if (found.length > 0) filter.lists[key] = unique(found)
  }
  for (const key of SINGLES) filter.singles[key] = query.get(key) ?? filter.singles[key]
  filter.text = query.get('text') ?? filter.text
  return filter
}

/** The parameters of an address, with `null` for what is not filtered by. */
export function toParameters(filter: Filter): Record<string, string | null> {
  const parameters: Record<string, string | null> = { q: filter.unknown || null, text: filter.text || null }
  for (const key of LISTS) parameters[key] = filter.lists[key].map(quotedInList).join(',') || null
  for (const key of SINGLES) parameters[key] = filter.singles[key] || null
  return parameters
}

function quotedInList(value: string): string {
  return value.includes(',') ? `"${value}"` : value
}

/** The query of the API. Throws `BadTime` where a time cannot be read. */
export function toApi(filter: Filter, now: number): Query {
  const query: Record<string, string | readonly string[]> = {}
  // Repeated, not joined: names of tools and clients may have commas.
  for (const key of LISTS) if (filter.lists[key].length > 0) query[key] = filter.lists[key]
  for (const key of SINGLES) if (filter.singles[key]) query[key === 'trace' ? 'trace_id' : key] = filter.singles[key]
  for (const key of ['since', 'until'] as const) {
    if (!filter.singles[key]) continue
    const at = timeOf(filter.singles[key], now)
    if (at === undefined) throw new BadTime(filter.singles[key])
    query[key] = new Date(at).toISOString()
  }
  // An end that is a time of day is the first one after the beginning.
  const [since, until] = [query.since, query.until]
  if (typeof since === 'string' && typeof until === 'string' && until < since && TIME.test(filter.singles.until)) {
    const next = new Date(until)
    next.setDate(next.getDate() + 1)
    query.until = next.toISOString()
  }
  if (filter.text) query.text = filter.text
  return query
}

export class BadTime extends Error {}

const UNITS: Record<string, number> = { s: 1000, m: 60_000, min: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }

/** `90s`, `15m`, `2h`, `7d`: so long ago, in milliseconds. */
export function spanOf(text: string): number | undefined {
  const found = /^(\d{1,6})(s|min|m|h|d|w)$/.exec(text)
  return found ? Number(found[1]) * (UNITS[found[2] ?? ''] ?? 0) : undefined
}

const TIME = /^(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,3}))?)?$/

/** Milliseconds of this time on the day of `day`, here. */
function onDay(day: Date, text: string): number | undefined {
  const found = TIME.exec(text)
  if (!found) return undefined
  const [hour, minute, second] = [Number(found[1]), Number(found[2]), Number(found[3] ?? 0)]
  if (hour > 23 || minute > 59 || second > 59) return undefined
  return new Date(day).setHours(hour, minute, second, Number((found[4] ?? '').padEnd(3, '0')))
}

function dayBefore(day: Date): Date {
  const before = new Date(day)
  before.setDate(day.getDate() - 1)
  return before
}

/**
 * The times of `--since` of the commands, and `now`: so long ago (`2h`, `-2h`), a time of day (`14:03`, of yesterday if it is
 * to come), a day (`today`, `yesterday`, `2026-11-28`) with or without a time, or RFC 3339.
 */
export function timeOf(text: string, now: number): number | undefined {
  const back = spanOf(text.replace(/^-/, ''))
  if (back !== undefined) return now - back
  if (text === 'now') return now
  const today = new Date(now)
  const ofToday = onDay(today, text)
  if (ofToday !== undefined) return ofToday > now ? onDay(dayBefore(today), text) : ofToday
  const [, name = '', time = '00:00'] = /^(today|yesterday)(?: (.*))?$/.exec(text) ?? []
  if (name) return onDay(name === 'today' ? today : dayBefore(today), time)
  const dated = /^(\d{4}-\d{2}-\d{2})(?:[ T](\d[\d:.]*) ?(Z|[+-]\d{2}:\d{2})?)?$/.exec(text)
  if (!dated) return undefined
  // A day alone is one of here, not of UTC.
  const at = Date.parse(`${dated[1] ?? ''}T${dated[2] ?? '00:00'}${dated[3] ?? ''}`)
  return Number.isNaN(at) ? undefined : at
}
