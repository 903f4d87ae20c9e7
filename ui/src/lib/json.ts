/** JSON that a person types. */
import { texts } from '../texts'

/** The value of a text. Throws a sentence where it is no JSON, or where a number would become another one. */
export function parseJson(text: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new Error(texts.tools.badJson((error as Error).message), { cause: error })
  }
  let isInText = false
  for (const [token] of text.matchAll(/"|\\.|-?\d[\d.eE+-]*/g)) {
    if (token === '"') isInText = !isInText
    else if (!isInText && isChanged(token)) throw new Error(texts.tools.tooLarge(token))
  }
  return value
}

/** Whether a number is sent as another one: its digits are compared with those that would be written. */
export function isChanged(token: string): boolean {
  const value = Number(token)
  if (!Number.isFinite(value)) return true
  if (Number.isSafeInteger(value) || /\D/.test(token.slice(1))) return false
  return token.replace(/^-|0+$/g, '') !== value.toExponential().replace(/e.*|\D/g, '')
}
