/** Secrets among arguments: places that a schema marks as password, or as written and never read. */
import { define, flatten, isMembers, isSchema, type Members, type Schema } from './schema'

export const DOTS = '••••••'
/** Places that are looked at, and how deep. What lies beyond is shown as dots. */
const MAX_PLACES = 10_000
const MAX_DEPTH = 100

export function isSecret(schema: unknown): boolean {
  return isMembers(schema) && (schema.format === 'password' || schema.writeOnly === true)
}

/** Whether a schema may mark secrets at all: most do not. */
export function hasSecrets(schema: Schema): boolean {
  try {
    return /"(password|writeOnly)"/.test(JSON.stringify(schema))
  } catch {
    return true
  }
}

/** The value with dots for its secrets, in each alternative of a choice. */
export function masked(value: Members, schema: Schema): Members {
  return maskedAt(value, schema, { root: schema, left: MAX_PLACES }, 0) as Members
}

function maskedAt(value: unknown, schema: Schema, walk: { root: Schema; left: number }, depth: number): unknown {
  walk.left -= 1
  if (walk.left < 0 || depth > MAX_DEPTH) return DOTS
  const inner = (at: unknown, part: Schema): unknown => maskedAt(at, part, walk, depth + 1)
  const flat = flatten(schema, walk.root)
  if (!isMembers(flat)) return value
  if (isSecret(flat)) return value === '' ? value : DOTS
  let next = value
  for (const parts of [flat.oneOf, flat.anyOf]) {
    for (const part of schemasOf(parts)) next = inner(next, part)
  }
  if (Array.isArray(next)) {
    const prefix = schemasOf(flat.prefixItems)
    return next.map((item: unknown, index) => inner(item, prefix[index] ?? (isSchema(flat.items) ? flat.items : true)))
  }
  if (!isMembers(next)) return next
  const copy: Members = {}
  for (const [name, member] of Object.entries(next)) {
    const own = isMembers(flat.properties) && Object.hasOwn(flat.properties, name) ? flat.properties[name] : flat.additionalProperties
    const patterns = isMembers(flat.patternProperties) ? Object.values(flat.patternProperties) : []
    define(copy, name, schemasOf([own, ...patterns]).reduce(inner, member))
  }
  return copy
}

function schemasOf(parts: unknown): Schema[] {
  return Array.isArray(parts) ? parts.filter(isSchema) : []
}
