/** Secrets among arguments: places that a schema marks as password, or as written and never read, and texts whose names say it. */
import { define, flatten, isMembers, isSchema, type Members, type Schema } from './schema'

/** Names that the daemon takes out of records by default: crates/core/src/redact/names.rs. */
const WORDS =
  '(?:(?:api|access|secret|private)[_-]?keys?|tokens?|secrets?|passw(?:or)?ds?|passphrases?|pwds?|credentials?|cookies?|authorization|x-(?:amz|goog)-signature)'
const NAME = new RegExp(`${WORDS}$`, 'i')
/** Tokens that open nothing: they say where a list goes on, or how many there are. */
const OPEN = /(?:(?:page|next|continuation|progress|sync|change)[_-]?token|(?:max|min|total|input|output|num)[_-]?tokens)$/i
const MAY_HAVE = new RegExp(`"(?:password|writeOnly)"|${WORDS}"`, 'i')

export const DOTS = '••••••'
/** Places that are looked at, and how deep. What lies beyond is shown as dots. */
const MAX_PLACES = 10_000
const MAX_DEPTH = 100

/** Whether a text of this name is a secret. A choice among what the schema lists is none. */
export function isSecret(schema: unknown, name: string): boolean {
  if (!isMembers(schema)) return isNamed(name)
  return isMarked(schema) || (isNamed(name) && !Object.hasOwn(schema, 'enum') && !Object.hasOwn(schema, 'const'))
}

function isMarked(schema: Members): boolean {
  return schema.format === 'password' || schema.writeOnly === true
}

function isNamed(name: string): boolean {
  return NAME.test(name) && !OPEN.test(name)
}

/** Whether there may be secrets at all: mostly there are none. */
export function hasSecrets(value: Members, schema: Schema): boolean {
  try {
    return MAY_HAVE.test(JSON.stringify([schema, value]))
  } catch {
    return true
  }
}

/** The value with dots for its secrets, in each alternative of a choice. */
export function masked(value: Members, schema: Schema): Members {
  return maskedAt(value, schema, '', { root: schema, left: MAX_PLACES }, 0) as Members
}

/** Items of a list have its name. */
function maskedAt(value: unknown, schema: Schema, name: string, walk: { root: Schema; left: number }, depth: number): unknown {
  walk.left -= 1
  if (walk.left < 0 || depth > MAX_DEPTH) return DOTS
  const inner = (at: unknown, part: Schema, of = name): unknown => maskedAt(at, part, of, walk, depth + 1)
  const found = flatten(schema, walk.root)
  const flat = isMembers(found) ? found : {}
  if (isMarked(flat) || (typeof value === 'string' && isSecret(flat, name))) return value === '' ? value : DOTS
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
  for (const [key, member] of Object.entries(next)) {
    const own = isMembers(flat.properties) && Object.hasOwn(flat.properties, key) ? flat.properties[key] : flat.additionalProperties
    const patterns = isMembers(flat.patternProperties) ? Object.values(flat.patternProperties) : []
    const parts = schemasOf([own, ...patterns])
    // What no schema describes has a name all the same.
    define(copy, key, (parts.length > 0 ? parts : [true]).reduce((at, part) => inner(at, part, key), member))
  }
  return copy
}

function schemasOf(parts: unknown): Schema[] {
  return Array.isArray(parts) ? parts.filter(isSchema) : []
}
