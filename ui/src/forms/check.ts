/** What is wrong with a value, by the place where it is said. */
import type { OutputUnit } from '@cfworker/json-schema'
import { formsTexts } from './texts'

/** How long a schema may take. */
const LIMIT_MS = 2000

type Errors = Map<string, string[]>

/** An error of an alternative. */
export interface InnerError {
  message: string
  /** The choices that it is in, from the outermost: where each stands, and the number of the alternative. */
  within: [pointer: string, alternative: number][]
}

/** Errors by JSON pointer. */
export interface Findings {
  errors: Errors
  /** What single alternatives of a choice lack: said only at fields that are shown, of the alternative that is chosen. */
  inner: Map<string, InnerError[]>
  /** The schema cannot be used. */
  unchecked: boolean
}

export const NOTHING_FOUND: Findings = { errors: new Map(), inner: new Map(), unchecked: false }

let worker: Worker | undefined
let limit: ReturnType<typeof setTimeout> | undefined
/** Takers of the worker's answers, which come in the order of the questions. */
const waiting: ((errors: OutputUnit[] | undefined) => void)[] = []

/** Checks a value. Answers come in the order in which they were asked for. */
export async function check(schema: unknown, value: unknown): Promise<Findings> {
  const errors = await ask(schema, value)
  return errors ? { ...found(errors), unchecked: false } : { ...NOTHING_FOUND, unchecked: true }
}

function ask(schema: unknown, value: unknown): Promise<OutputUnit[] | undefined> {
  return new Promise((resolve) => {
    try {
      worker ??= open()
      // As texts, which the worker reads: exact numbers would not arrive.
      worker.postMessage([JSON.stringify(schema), JSON.stringify(value)])
    } catch {
      resolve(undefined)
      return
    }
    waiting.push(resolve)
    if (waiting.length === 1) limitNext()
  })
}

function open(): Worker {
  const opened = new Worker(new URL('./check.worker.ts', import.meta.url), { type: 'module' })
  opened.onmessage = (message: MessageEvent<OutputUnit[] | undefined>) => {
    waiting.shift()?.(message.data)
    limitNext()
  }
  opened.onerror = giveUp
  return opened
}

/** The limit counts from when the worker begins with a value. */
function limitNext(): void {
  clearTimeout(limit)
  if (waiting.length > 0) limit = setTimeout(giveUp, LIMIT_MS)
}

/** Ends the worker: what waits for it stays unchecked. */
function giveUp(): void {
  clearTimeout(limit)
  if (worker) {
    worker.onmessage = null
    worker.onerror = null
    worker.terminate()
    worker = undefined
  }
  for (const take of waiting.splice(0)) take(undefined)
}

/** Keywords whose errors are told by the errors below them. */
const OUTER = new Set(['properties', 'patternProperties', 'items', 'prefixItems', '$ref', '$dynamicRef', 'allOf', 'if', 'then', 'else', 'dependentSchemas', 'additionalProperties', 'unevaluatedProperties'])

/** Errors by the place that they are about, in words. */
export function found(units: readonly OutputUnit[]): Pick<Findings, 'errors' | 'inner'> {
  const errors: Errors = new Map()
  const inner: Findings['inner'] = new Map()
  const choices = units.filter((unit) => unit.keyword === 'oneOf' || unit.keyword === 'anyOf')
  for (const unit of units) {
    if (OUTER.has(unit.keyword)) continue
    const place = pointerOf(unit)
    const missing = unit.keyword === 'required' ? /"(.*)"/s.exec(unit.error)?.[1] : undefined
    const pointer = missing === undefined ? place : below(place, missing)
    const message = wordsOf(unit)
    const within = choices
      .filter((other) => unit.keywordLocation.startsWith(`${other.keywordLocation}/`))
      .map((other): [string, number] => [pointerOf(other), Number.parseInt(unit.keywordLocation.slice(other.keywordLocation.length + 1), 10)])
    if (within.length === 0) add(errors, pointer, message, (error) => error === message)
    else add(inner, pointer, { message, within }, (error) => error.message === message && String(error.within) === String(within))
  }
  return { errors, inner }
}

function pointerOf(unit: OutputUnit): string {
  return unit.instanceLocation.replace(/^#/, '')
}

function add<T>(into: Map<string, T[]>, pointer: string, item: T, isSame: (other: T) => boolean): void {
  const list = into.get(pointer) ?? []
  if (!list.some(isSame)) into.set(pointer, [...list, item])
}

function wordsOf(unit: OutputUnit): string {
  switch (unit.keyword) {
    case 'required':
      return formsTexts.missing
    case 'oneOf':
    case 'anyOf':
      return formsTexts.noAlternative
    case 'type': {
      const types = /Expected "(.*)"\.$/s.exec(unit.error)?.[1]?.split('", "') ?? []
      return types.length === 0 ? unit.error : formsTexts.expected(types.map((type) => formsTexts.types[type] ?? type))
    }
    case 'false':
      return formsTexts.notAllowed
    default:
      return unit.error.replace(/^Instance /, formsTexts.thisValue)
  }
}

/** The pointer of a member. */
export function below(pointer: string, name: string | number): string {
  return `${pointer}/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`
}
