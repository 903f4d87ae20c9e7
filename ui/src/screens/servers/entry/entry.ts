/**
 * The entry of a server as a form, and back. What the form does not know stays in the entry as it was.
 * docs/configuration.md, "A server's entry", has the keys.
 */
import type { Finding } from '../../../api/types'
import { isMembers } from '../../../forms/schema'
import { isExactNumber, kindOf, parseJson } from '../../../lib/json'
import { entryTexts } from './texts'

export type Entry = Record<string, unknown>
export type Transport = 'stdio' | 'http' | 'sse'

/** A line of `env` or `headers`. */
export interface Pair {
  /** Tells lines apart while names are edited. */
  id: number
  name: string
  value: string
  /** What is sent back unless something was typed: the placeholder of a secret, or a value that is no text. */
  kept?: unknown
  /** `null` in `env` takes a variable away. */
  isUnset?: boolean
}

export interface EntryForm {
  name: string
  transport: Transport
  command: string
  /** One a line. */
  args: string
  cwd: string
  url: string
  env: Pair[]
  headers: Pair[]
  autoStart: boolean
  /** The entry that the form was made from. */
  base: Entry
}

const URL_KEYS = ['url', 'serverUrl', 'httpUrl', 'remoteUrl'] as const
const TYPE_KEYS = ['type', 'transport', 'serverType'] as const
/** Keys that have fields of their own. */
const FORM_KEYS = new Set<string>([...URL_KEYS, ...TYPE_KEYS, 'command', 'args', 'cwd', 'env', 'headers', 'autoStart'])

const PLACEHOLDER = /^\$\{secret:[^}]*\}$/
const SECRET_NAME = /key|token|secret|passw|auth|credential|cookie|private|dsn/i

let lastId = 0

export function emptyPair(): Pair {
  lastId += 1
  return { id: lastId, name: '', value: '' }
}

/** Whether the value of such a name is not to be read by somebody who looks over a shoulder. References are no secrets. */
export function isSecret(pair: Pair): boolean {
  if (/^\$\{(?!secret:)/.test(pair.value)) return false
  return pair.kept !== undefined || SECRET_NAME.test(pair.name)
}

function text(value: unknown): string {
  if (typeof value === 'string') return value
  if (isExactNumber(value)) return value.rawJSON
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
}

function pairs(value: unknown): Pair[] {
  if (!isMembers(value)) return []
  return Object.entries(value).map(([name, given]) => {
    const pair = { ...emptyPair(), name }
    if (given === null) return { ...pair, isUnset: true }
    const known = text(given)
    return PLACEHOLDER.test(known) || isMembers(given) || Array.isArray(given) ? { ...pair, kept: given } : { ...pair, value: known }
  })
}

/** `before` is what the pairs were made from: a number that was not changed stays one. */
function fromPairs(list: readonly Pair[], before: unknown): Entry {
  const object: Entry = {}
  const given = isMembers(before) ? before : {}
  for (const pair of list) {
    if (pair.name.trim() === '') continue
    const name = pair.name.trim()
    if (pair.isUnset) object[name] = null
    else if (pair.value === '' && pair.kept !== undefined) object[name] = pair.kept
    else object[name] = name in given && text(given[name]) === pair.value ? given[name] : pair.value
  }
  return object
}

/** The transport that an entry has: it is inferred unless a word pins it. */
export function transportOf(entry: Entry): Transport {
  const word = TYPE_KEYS.map((key) => entry[key]).find((value) => typeof value === 'string')
  const plain = typeof word === 'string' ? word.toLowerCase().replace(/[-_]/g, '') : ''
  if (plain === 'sse') return 'sse'
  if (plain === 'stdio' || plain === 'local') return 'stdio'
  if (plain !== '' || URL_KEYS.some((key) => typeof entry[key] === 'string')) return 'http'
  return 'stdio'
}

export function toForm(name: string, entry: Entry): EntryForm {
  const args = Array.isArray(entry['args']) ? entry['args'].map(text) : []
  return {
    name,
    transport: transportOf(entry),
    command: text(entry['command']),
    args: args.join('\n'),
    cwd: text(entry['cwd']),
    url: URL_KEYS.map((key) => text(entry[key])).find((value) => value !== '') ?? '',
    env: pairs(entry['env']),
    headers: pairs(entry['headers']),
    autoStart: entry['autoStart'] !== false,
    base: entry,
  }
}

/** Whether an argument cannot be a line of the form. */
export function hasLineBreak(entry: Entry): boolean {
  return Array.isArray(entry['args']) && entry['args'].some((arg) => typeof arg === 'string' && arg.includes('\n'))
}

export function toEntry(form: EntryForm): Entry {
  const entry: Entry = {}
  const before = toForm('', form.base)
  /** What was not changed stays as it is, even if the form cannot show it: the daemon says what is wrong with it. */
  const unless = (key: 'command' | 'args' | 'cwd', changed: unknown): unknown => (key in form.base && form[key] === before[key] ? form.base[key] : changed)
  const isRemote = form.transport !== 'stdio'
  const urlKey = URL_KEYS.find((key) => key in form.base) ?? 'url'
  const sets: Entry = {
    command: isRemote ? undefined : unless('command', form.command.trim()),
    args: isRemote ? undefined : unless('args', argsOf(form)),
    cwd: isRemote ? undefined : unless('cwd', form.cwd.trim() || undefined),
    env: isRemote ? undefined : filled(fromPairs(form.env, form.base['env']), form.base['env']),
    [urlKey]: isRemote ? form.url.trim() : undefined,
    headers: isRemote ? filled(fromPairs(form.headers, form.base['headers']), form.base['headers']) : undefined,
    autoStart: form.autoStart === before.autoStart ? form.base['autoStart'] : form.autoStart ? undefined : false,
  }
  const isSame = transportOf(form.base) === form.transport
  if (form.transport === 'sse' && !isSame) sets['type'] = 'sse'
  // Keys keep their places, so that a file changes only where something was changed.
  for (const [key, value] of Object.entries(form.base)) {
    if (!FORM_KEYS.has(key)) entry[key] = value
    else if ((TYPE_KEYS as readonly string[]).includes(key)) {
      if (isSame) entry[key] = value
      else if (key in sets) entry[key] = sets[key]
    } else if (sets[key] !== undefined) entry[key] = sets[key]
  }
  for (const [key, value] of Object.entries(sets)) if (value !== undefined && !(key in entry)) entry[key] = value
  return entry
}

function argsOf(form: EntryForm): string[] | undefined {
  const args = form.args.split('\n').map((line) => line.replace(/\r$/, ''))
  while (args.length > 0 && args.at(-1)?.trim() === '') args.pop()
  return args.length > 0 || 'args' in form.base ? args : undefined
}

/** An empty object is written only where there was one. */
function filled(object: Entry, before: unknown): unknown {
  const isUnread = before !== undefined && before !== null && !isMembers(before)
  if (isUnread && Object.keys(object).length === 0) return before
  return Object.keys(object).length > 0 || (before !== undefined && before !== null) ? object : undefined
}

/** Keys of the entry that only the JSON shows. */
export function otherKeys(entry: Entry): string[] {
  return Object.keys(entry).filter((key) => !FORM_KEYS.has(key))
}

/** The same for people: a switch or a number with its value, any other by its name, since it may be secret or long. */
export function otherSettings(entry: Entry): string {
  return otherKeys(entry)
    .map((key) => (['boolean', 'number'].includes(kindOf(entry[key])) ? `${key}: ${text(entry[key])}` : key))
    .join(', ')
}

/** Errors by field; those of no field under the empty name. */
export type FieldErrors = Partial<Record<string, string[]>>

/** What can be said before anything is sent. */
export function check(form: EntryForm): FieldErrors {
  const errors: FieldErrors = {}
  if (form.name.trim() === '') errors['name'] = [entryTexts.nameMissing]
  if (form.transport === 'stdio' && form.command.trim() === '') errors['command'] = [entryTexts.commandMissing]
  if (form.transport !== 'stdio' && !/^(https?:\/\/|\$\{)/i.test(form.url.trim())) errors['url'] = [entryTexts.urlMissing]
  return errors
}

/** The findings of a refused entry by field. A finding of a key that has no field stands above the form. */
export function byField(findings: readonly Finding[]): FieldErrors {
  const errors: FieldErrors = {}
  for (const { path, message, hint } of findings) {
    const hinted = hint ? `${message} (${hint})` : message
    const key = path.split(/[.[]/)[0] ?? ''
    const field = (URL_KEYS as readonly string[]).includes(key) ? 'url' : FORM_KEYS.has(key) && !(TYPE_KEYS as readonly string[]).includes(key) ? key : ''
    const rest = path.slice(key.length).replace(/^\./, '')
    const where = field === '' ? path : rest
    const words = where ? `${where}: ${hinted}` : hinted
    ;(errors[field] ??= []).push(words)
  }
  return errors
}

/** The entry that a text holds, or why it holds none. */
export function parseEntry(json: string): { entry: Entry } | { error: string } {
  try {
    const value = parseJson(json)
    return isMembers(value) ? { entry: value } : { error: entryTexts.jsonObject }
  } catch (error) {
    return { error: (error as Error).message }
  }
}

/** What a start of this entry would run or reach; secrets stay out. */
export interface Shown {
  command: string[]
  cwd: string | undefined
  url: string | undefined
  env: string[]
  headers: string[]
}

export function shownOf(entry: Entry): Shown {
  const form = toForm('', entry)
  const isRemote = form.transport !== 'stdio'
  return {
    command: isRemote ? [] : [form.command, ...(Array.isArray(entry['args']) ? entry['args'].map(text) : [])],
    cwd: form.cwd || undefined,
    url: isRemote ? form.url : undefined,
    env: isRemote ? [] : form.env.map((pair) => pair.name),
    headers: isRemote ? form.headers.map((pair) => pair.name) : [],
  }
}

/** An entry without the values of its variables and headers. */
export function withoutValues(entry: Entry): Entry {
  const hidden = (value: unknown): unknown => (isMembers(value) ? Object.fromEntries(Object.keys(value).map((name) => [name, '…'])) : value)
  return { ...entry, ...('env' in entry && { env: hidden(entry['env']) }), ...('headers' in entry && { headers: hidden(entry['headers']) }) }
}

/** A name beside those that are taken: `files`, `files-2`, `files-3`. A number is counted on only where it is one of these. */
export function freeName(name: string, taken: (name: string) => boolean): string {
  const before = name.replace(/-[1-9]\d*$/, '')
  const stem = taken(before) ? before : name
  for (let number = 2; ; number += 1) if (!taken(`${stem}-${number}`)) return `${stem}-${number}`
}
