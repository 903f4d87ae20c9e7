/**
 * JSON whose numbers stay as they are written. JavaScript rounds whole numbers beyond 2^53: one that it would
 * write with other digits is kept as an `ExactNumber`, which `JSON.stringify` writes with its own.
 */
import { toolsTexts } from '../screens/tools/texts'

/** Since Chrome 114, Firefox 135 and Safari 18.4; TypeScript does not know it yet. */
const exact = JSON as unknown as {
  rawJSON?: (text: string) => ExactNumber
  isRawJSON?: (value: unknown) => value is ExactNumber
}
type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown

/** What `JSON.rawJSON` makes of a number: an object that is frozen and has no prototype. */
export interface ExactNumber {
  readonly rawJSON: string
}

/** Whether a text may have numbers that would be rounded. Most have none, and are read in the quick way. */
const MAYBE_LARGE = /(?:^|[\s[:,-])(?:\d{16}|\d[\d.]*[eE]\+?\d{3})/

export function isExactNumber(value: unknown): value is ExactNumber {
  return typeof value === 'object' && exact.isRawJSON?.(value) === true
}

/** The kind of a single value: `null`, `array`, `number`, or what `typeof` says. */
export function kindOf(value: unknown): string {
  return value === null ? 'null' : Array.isArray(value) ? 'array' : isExactNumber(value) ? 'number' : typeof value
}

/** The value of JSON that a program wrote. An older browser rounds large numbers. */
export function readJson(text: string): unknown {
  if (!exact.rawJSON || !MAYBE_LARGE.test(text)) return JSON.parse(text)
  const { rawJSON } = exact
  const keep: Reviver = (_, value, context) =>
    typeof value === 'number' && context?.source !== undefined ? (numberOf(context.source) ?? rawJSON(context.source)) : value
  try {
    return JSON.parse(text, keep as (key: string, value: unknown) => unknown)
  } catch {
    // It is no JSON, which is said again, or nested more deeply than a reviver goes.
    return JSON.parse(text)
  }
}

/** The value of JSON that a person typed. Throws a sentence where it is no JSON, or where a number cannot be sent. */
export function parseJson(text: string): unknown {
  let value: unknown
  try {
    value = readJson(text)
  } catch (error) {
    throw new Error(toolsTexts.badJson((error as Error).message), { cause: error })
  }
  let isInText = false
  for (const [token] of text.matchAll(/"|\\.|-?\d[\d.eE+-]*/g)) {
    if (token === '"') isInText = !isInText
    else if (!isInText && numberOf(token) === undefined) throw new Error(toolsTexts.tooLarge(token))
  }
  return value
}

/** A number with the digits that it is written with; `undefined` where none can be made of it. */
export function numberOf(token: string): number | ExactNumber | undefined {
  const value = Number(token)
  if (!Number.isFinite(value)) return undefined
  if (!isChanged(token, value)) return value
  // Zeros and a sign in front are no JSON.
  return /^-?[1-9]/.test(token) ? exact.rawJSON?.(token) : undefined
}

/** Whether a whole number would be written with other digits. */
function isChanged(token: string, value: number): boolean {
  return !Number.isSafeInteger(value) && !/\D/.test(token.slice(1)) && token !== String(value)
}

/** A copy that is no proxy. Svelte's own would lose the digits of exact numbers. */
export function copyOf<T>(value: T): T {
  return readJson(JSON.stringify(value)) as T
}

/** The same with numbers as JavaScript has them, for what calculates. */
export function rounded(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value) ?? 'null')
}
