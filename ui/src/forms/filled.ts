/** Which places of a form are filled in. */
import { alternativeOf, controlOf, define, isMembers, type Control, type Members, type Schema } from './schema'

/** Arguments without the items of lists that are still empty; `isComplete` where those and all that is required are there. */
export function filled(value: Members, schema: Schema): { value: Members; isComplete: boolean } {
  const walk = { root: schema, isComplete: true }
  const kept = filledAt(value, schema, walk, 0) as Members
  return { value: kept, isComplete: walk.isComplete }
}

interface Walk {
  root: Schema
  isComplete: boolean
}

/** `undefined` for a list of which no item is filled in. */
function filledAt(value: unknown, schema: Schema, walk: Walk, depth: number): unknown {
  const control = formOf(value, schema, walk.root, depth)
  if (control.kind === 'array' && Array.isArray(value)) {
    const items = value.map((item: unknown, index) => {
      const of = control.prefix[index] ?? control.items ?? true
      return isEmpty(item, of, walk.root, depth + 1) ? undefined : filledAt(item, of, walk, depth + 1)
    })
    const kept = items.filter((item) => item !== undefined)
    if (kept.length < Math.max(items.length, control.least)) walk.isComplete = false
    return kept.length === 0 && items.length > 0 ? undefined : kept
  }
  if (control.kind === 'object' && isMembers(value)) {
    const schemas = new Map(control.properties)
    const kept: Members = {}
    for (const [name, member] of Object.entries(value)) {
      const filledMember = filledAt(member, schemas.get(name) ?? true, walk, depth + 1)
      if (filledMember !== undefined) define(kept, name, filledMember)
    }
    for (const name of control.required) if (!Object.hasOwn(kept, name)) walk.isComplete = false
    return kept
  }
  return value
}

/** The control of the alternative that the value looks like. */
function formOf(value: unknown, schema: Schema, root: Schema, depth: number): Exclude<Control, { kind: 'choice' }> {
  const control = controlOf(schema, root, depth)
  if (control.kind !== 'choice') return control
  const at = alternativeOf(control.alternatives, root, value)
  return formOf(value, control.alternatives[at] ?? true, root, depth + 1)
}

/** The form has `null` in a list for an item that has no value yet. */
function isEmpty(item: unknown, schema: Schema, root: Schema, depth: number): boolean {
  if (item !== null) return false
  const control = formOf(item, schema, root, depth)
  return control.kind === 'enum' ? control.options.every((option) => option.value !== null) : control.kind !== 'json' && control.kind !== 'const'
}
