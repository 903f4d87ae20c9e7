/** Bounds, formats and defaults of a schema in a few words. */
import { texts } from '../texts'
import { isMembers, written, type Schema } from './schema'

const MAX_DEFAULT = 80

export function boundsOf(schema: Schema | string): string {
  if (!isMembers(schema)) return ''
  const parts: string[] = []
  const number = (...keys: string[]): string | undefined => {
    for (const key of keys) if (typeof schema[key] === 'number') return String(schema[key])
    return undefined
  }
  const range = (least: string | undefined, most: string | undefined, words = (bounds: string) => bounds): void => {
    if (least !== undefined || most !== undefined) parts.push(words(texts.forms.bounds(least, most)))
  }
  if (typeof schema.format === 'string') parts.push(schema.format)
  range(number('minimum', 'exclusiveMinimum'), number('maximum', 'exclusiveMaximum'))
  range(number('minLength'), number('maxLength'), texts.forms.characters)
  range(number('minItems'), number('maxItems'), texts.forms.itemBounds)
  if (typeof schema.pattern === 'string') parts.push(schema.pattern.slice(0, MAX_DEFAULT))
  if (Object.hasOwn(schema, 'default')) parts.push(texts.forms.byDefault(written(schema.default).slice(0, MAX_DEFAULT)))
  return parts.join(' · ')
}
