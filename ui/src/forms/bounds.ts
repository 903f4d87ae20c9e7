/** Bounds, formats and defaults of a schema in a few words. */
import { kindOf } from '../lib/json'
import { isMembers, written, type Schema } from './schema'
import { formsTexts } from './texts'

const MAX_DEFAULT = 80

export function boundsOf(schema: Schema | string): string {
  if (!isMembers(schema)) return ''
  const parts: string[] = []
  const number = (key: string): string | undefined => (kindOf(schema[key]) === 'number' ? written(schema[key]) : undefined)
  const range = (least: string | undefined, most: string | undefined, words = (bounds: string) => bounds): void => {
    if (least !== undefined || most !== undefined) parts.push(words(formsTexts.bounds(least, most)))
  }
  if (typeof schema.format === 'string') parts.push(schema.format)
  range(number('minimum'), number('maximum'))
  const [above, under] = [number('exclusiveMinimum'), number('exclusiveMaximum')]
  if (above !== undefined) parts.push(formsTexts.above(above))
  if (under !== undefined) parts.push(formsTexts.under(under))
  range(number('minLength'), number('maxLength'), formsTexts.characters)
  range(number('minItems'), number('maxItems'), formsTexts.itemBounds)
  if (typeof schema.pattern === 'string') parts.push(schema.pattern.slice(0, MAX_DEFAULT))
  if (Object.hasOwn(schema, 'default')) parts.push(formsTexts.byDefault(written(schema.default).slice(0, MAX_DEFAULT)))
  return parts.join(' · ')
}
