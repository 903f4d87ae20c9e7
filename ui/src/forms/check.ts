/** What is wrong with a value, by the place where it is said. */
import type { OutputUnit } from '@cfworker/json-schema'
import { texts } from '../texts'

/** How long a schema may take. */
const LIMIT_MS = 2000

type Errors = Map<string, string[]>

/** Errors by JSON pointer. */
export interface Findings {
  errors: Errors
  /** What single alternatives of a choice lack: said only at fields that are shown. */
  inner: Errors
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
export function found(units: readonly OutputUnit[]): { errors: Errors; inner: Errors } {
  const errors: Errors = new Map()
  const inner: Errors = new Map()
  const choices = units.filter((unit) => unit.keyword === 'oneOf' || unit.keyword === 'anyOf')
  for (const unit of units) {
    if (OUTER.has(unit.keyword)) continue
    const choice = choices.find((it) => it !== unit && unit.keywordLocation.startsWith(`${it.keywordLocation}/`))
    const place = unit.instanceLocation.replace(/^#/, '')
    const missing = unit.keyword === 'required' ? /"(.*)"/s.exec(unit.error)?.[1] : undefined
    const pointer = missing === undefined ? place : below(place, missing)
    if (choice && pointer === choice.instanceLocation.replace(/^#/, '')) continue
    const into = choice ? inner : errors
    const list = into.get(pointer) ?? []
    const message = wordsOf(unit)
    if (!list.includes(message)) into.set(pointer, [...list, message])
  }
  return { errors, inner }
}

function wordsOf(unit: OutputUnit): string {
  switch (unit.keyword) {
    case 'required':
      return texts.forms.missing
    case 'oneOf':
    case 'anyOf':
      return texts.forms.noAlternative
    case 'type': {
      const types = /Expected "(.*)"\.$/s.exec(unit.error)?.[1]?.split('", "') ?? []
      return types.length === 0 ? unit.error : texts.forms.expected(types.map((type) => texts.forms.types[type] ?? type))
    }
    case 'false':
      return texts.forms.notAllowed
    default:
      return unit.error.replace(/^Instance /, texts.forms.thisValue)
  }
}

/** The pointer of a member. */
export function below(pointer: string, name: string | number): string {
  return `${pointer}/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`
}
