/**
 * How a JSON Schema (2020-12) becomes a form: which control a place has, what it holds at first, and where
 * a form cannot be made. Schemas come from servers: each step here is bounded.
 *
 * `@sjsf/form` was tried in place of this. Its message for what it does not know carries a `style` attribute, which
 * the page's policy forbids; its choices of `oneOf` have no label; an optional object is always sent, as `{}`.
 */
import { isExactNumber, rounded } from '../lib/json'

export type Members = Record<string, unknown>
export type Schema = Members | boolean

/** What a place of the form is edited with. */
export type Control =
  | { kind: 'text'; multiline: boolean }
  | { kind: 'number'; integer: boolean }
  | { kind: 'boolean' }
  | { kind: 'enum'; options: Option[] }
  | { kind: 'const'; value: unknown }
  | { kind: 'object'; properties: [string, Schema][]; required: Set<string>; others: Schema | undefined }
  | { kind: 'array'; prefix: Schema[]; items: Schema | undefined; least: number; most: number }
  | { kind: 'choice'; alternatives: Schema[] }
  /** Typed as JSON. */
  | { kind: 'json'; why: Reason | undefined }

export interface Option {
  value: unknown
  title: string
}

/** Why a place, or all of it, is raw JSON. The words stand in `texts.forms.reasons`. */
export type Reason = 'reference' | 'deep' | 'large' | 'never' | 'noObject'

const MAX_REFERENCES = 50
const MAX_MERGED = 100
const MAX_DEPTH = 8
const MAX_PROPERTIES = 200
const MAX_OPTIONS = 1000
const MAX_ALTERNATIVES = 50
const MAX_SCHEMA_CHARACTERS = 512 * 1024
/** A text without a bound, or with a larger one, has several lines. */
const SINGLE_LINE = 120

export function isMembers(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isExactNumber(value)
}

export function isSchema(value: unknown): value is Schema {
  return typeof value === 'boolean' || isMembers(value)
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** Why there can be no form for arguments of this schema. */
export function unfit(schema: unknown): Reason | undefined {
  if (!isMembers(schema)) return schema === true ? undefined : 'never'
  let written: string
  try {
    written = JSON.stringify(schema)
  } catch {
    return 'deep'
  }
  if (written.length > MAX_SCHEMA_CHARACTERS) return 'large'
  const control = controlOf(schema, schema)
  if (control.kind === 'json') return control.why ?? (Object.keys(schema).length === 0 ? undefined : 'noObject')
  if (control.kind !== 'object' && control.kind !== 'choice') return 'noObject'
  return undefined
}

/** What a reference within the document leads to; `undefined` where it leads nowhere. */
function lookUp(reference: string, root: Schema): Schema | undefined {
  if (reference === '#') return root
  if (!isMembers(root) || !reference.startsWith('#')) return undefined
  if (!reference.startsWith('#/')) {
    const anchor = reference.slice(1)
    for (const definitions of [root.$defs, root.definitions]) {
      if (!isMembers(definitions)) continue
      const found = Object.values(definitions).find((definition) => isMembers(definition) && definition.$anchor === anchor)
      if (isSchema(found)) return found
    }
    return undefined
  }
  let at: unknown = root
  for (const part of reference.slice(2).split('/')) {
    let name: string
    try {
      name = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~')
    } catch {
      return undefined
    }
    if (Array.isArray(at)) at = at[Number(name)]
    else if (isMembers(at) && Object.hasOwn(at, name)) at = at[name]
    else return undefined
  }
  return isSchema(at) ? at : undefined
}

/** A schema with its references and its `allOf` put in their place; a reason where that cannot be done. */
export function flatten(schema: Schema, root: Schema): Schema | Reason {
  const budget = { left: MAX_MERGED }
  return flattened(schema, root, budget)
}

function flattened(schema: Schema, root: Schema, budget: { left: number }): Schema | Reason {
  let at = schema
  for (let step = 0; isMembers(at) && typeof at.$ref === 'string'; step += 1) {
    if (step > MAX_REFERENCES) return 'reference'
    const { $ref, ...beside } = at
    const found = lookUp($ref as string, root)
    if (found === undefined) return 'reference'
    at = isMembers(found) ? { ...found, ...beside } : found
    // What the target refers to is followed; its own reference stands in `found`.
    if (isMembers(found) && typeof found.$ref === 'string') at = { ...(at as Members), $ref: found.$ref }
  }
  if (!isMembers(at) || !Array.isArray(at.allOf)) return at
  const { allOf, ...rest } = at
  let merged: Members = rest
  for (const part of allOf) {
    budget.left -= 1
    if (budget.left < 0) return 'deep'
    if (!isSchema(part)) continue
    const flat = flattened(part, root, budget)
    if (typeof flat === 'string') return flat
    if (flat === false) return 'never'
    if (isMembers(flat)) merged = merge(merged, flat)
  }
  return merged
}

/** Both at once, as far as a form needs it. Values are checked against the schema as it was written. */
function merge(one: Members, other: Members): Members {
  const merged: Members = { ...other, ...one }
  if (isMembers(one.properties) && isMembers(other.properties)) merged.properties = { ...other.properties, ...one.properties }
  if (Array.isArray(one.required) && Array.isArray(other.required)) merged.required = [...new Set<unknown>([...one.required, ...other.required])]
  return merged
}

function typesOf(schema: Members): string[] {
  if (typeof schema.type === 'string') return [schema.type]
  if (Array.isArray(schema.type)) return schema.type.filter((type) => typeof type === 'string')
  return []
}

function optionsOf(schema: Members, root: Schema): Option[] | undefined {
  if (Array.isArray(schema.enum)) {
    if (schema.enum.length === 0 || schema.enum.length > MAX_OPTIONS) return undefined
    const names = Array.isArray(schema.enumNames) ? schema.enumNames : []
    return schema.enum.map((value: unknown, index) => ({ value, title: text(names[index]) ?? written(value) }))
  }
  // `oneOf` of constants is an enumeration with titles.
  const list = Array.isArray(schema.oneOf) ? schema.oneOf : Array.isArray(schema.anyOf) ? schema.anyOf : undefined
  if (!list || list.length === 0 || list.length > MAX_OPTIONS) return undefined
  const options: Option[] = []
  for (const part of list) {
    const flat = isSchema(part) ? flatten(part, root) : false
    if (!isMembers(flat) || !Object.hasOwn(flat, 'const')) return undefined
    options.push({ value: flat.const, title: text(flat.title) ?? written(flat.const) })
  }
  return options
}

/** A value in one line: texts as they are, all else as JSON. */
export function written(value: unknown): string {
  if (typeof value === 'string') return value
  try {
    return JSON.stringify(value) ?? ''
  } catch {
    return '…'
  }
}

/** The control of a schema, which may still have references in it. */
export function controlOf(schema: Schema, root: Schema, depth = 0): Control {
  const flat = flatten(schema, root)
  if (typeof flat === 'string') return { kind: 'json', why: flat }
  if (flat === false) return { kind: 'json', why: 'never' }
  if (flat === true) return { kind: 'json', why: undefined }
  if (Object.hasOwn(flat, 'const')) return { kind: 'const', value: flat.const }
  const options = optionsOf(flat, root)
  if (options) return { kind: 'enum', options }
  if (depth > MAX_DEPTH) return { kind: 'json', why: 'deep' }

  const alternatives = alternativesOf(flat)
  if (alternatives) return { kind: 'choice', alternatives }
  const types = typesOf(flat)
  if (types.length > 1) return { kind: 'choice', alternatives: types.map((type) => ({ ...flat, type })) }
  switch (types[0] ?? implied(flat)) {
    case 'string':
      return { kind: 'text', multiline: isMultiline(flat) }
    case 'number':
      return { kind: 'number', integer: false }
    case 'integer':
      return { kind: 'number', integer: true }
    case 'boolean':
      return { kind: 'boolean' }
    case 'null':
      return { kind: 'const', value: null }
    case 'object':
      return objectOf(flat)
    case 'array':
      return arrayOf(flat)
    default:
      return { kind: 'json', why: undefined }
  }
}

function implied(schema: Members): string | undefined {
  if (schema.properties || schema.additionalProperties || schema.patternProperties) return 'object'
  if (schema.items || schema.prefixItems) return 'array'
  if (schema.format || schema.pattern || schema.minLength !== undefined || schema.maxLength !== undefined) return 'string'
  if (schema.minimum !== undefined || schema.maximum !== undefined || schema.multipleOf !== undefined) return 'number'
  return undefined
}

/** Alternatives of which one is chosen, each with what stands beside it. */
function alternativesOf(schema: Members): Schema[] | undefined {
  const { oneOf, anyOf, ...beside } = schema
  const list = Array.isArray(oneOf) ? oneOf : Array.isArray(anyOf) ? anyOf : undefined
  const parts = list?.filter(isSchema)
  if (!parts || parts.length === 0 || parts.length > MAX_ALTERNATIVES) return undefined
  // Alternatives that only say what is required ask for no other controls.
  const isLayout = parts.some((part) => part === true || (isMembers(part) && ['type', '$ref', 'properties', 'enum', 'const', 'allOf', 'oneOf', 'anyOf', 'items', 'format'].some((key) => Object.hasOwn(part, key))))
  if (!isLayout && (beside.type !== undefined || beside.properties !== undefined)) return undefined
  const { title: _title, description: _description, default: _default, $defs: _defs, $schema: _schema, ...shape } = beside
  return parts.map((part) => (isMembers(part) ? (Object.hasOwn(part, '$ref') ? { allOf: [part], ...shape } : merge(part, shape)) : part))
}

function isMultiline(schema: Members): boolean {
  if (schema.contentMediaType !== undefined) return true
  return Number(rounded(schema.maxLength)) > SINGLE_LINE && schema.format === undefined && schema.pattern === undefined
}

function objectOf(schema: Members): Control {
  const properties = isMembers(schema.properties) ? Object.entries(schema.properties) : []
  if (properties.length > MAX_PROPERTIES) return { kind: 'json', why: 'large' }
  const required = new Set(Array.isArray(schema.required) ? schema.required.filter((name) => typeof name === 'string') : [])
  const known = properties.map(([name, part]): [string, Schema] => [name, isSchema(part) ? part : true])
  // A required property need not be described.
  for (const name of required) if (!known.some(([it]) => it === name)) known.push([name, true])
  return { kind: 'object', properties: known, required, others: othersOf(schema, known.length) }
}

/** The schema of properties that a person may add under names of their own. */
function othersOf(schema: Members, known: number): Schema | undefined {
  const others = schema.additionalProperties
  if (isMembers(others) || others === true) return others
  const patterns = isMembers(schema.patternProperties) ? Object.values(schema.patternProperties).filter(isSchema) : []
  if (patterns.length > 0) return patterns.length === 1 ? patterns[0] : true
  // Without a word about properties any may be given; an empty list of them says that there are none.
  return others === undefined && known === 0 && schema.properties === undefined ? true : undefined
}

function arrayOf(schema: Members): Control {
  const prefix = Array.isArray(schema.prefixItems) ? schema.prefixItems.filter(isSchema) : []
  const items = schema.items === false ? undefined : isSchema(schema.items) ? schema.items : true
  return {
    kind: 'array',
    prefix: prefix.slice(0, MAX_PROPERTIES),
    items,
    least: typeof schema.minItems === 'number' ? schema.minItems : 0,
    most: items === undefined ? prefix.length : typeof schema.maxItems === 'number' ? schema.maxItems : Infinity,
  }
}

/** What is said about a place: `title` and `description` of its schema or of what it refers to. */
export function labelOf(schema: Schema, root: Schema): { title: string | undefined; description: string | undefined } {
  const flat = flatten(schema, root)
  const from = isMembers(flat) ? flat : isMembers(schema) ? schema : {}
  return { title: text(from.title), description: text(from.description) }
}

/** What a place holds at first. `undefined` leaves it out. */
export function initial(schema: Schema, root: Schema, isRequired: boolean, depth = 0): unknown {
  const flat = flatten(schema, root)
  if (isMembers(flat) && Object.hasOwn(flat, 'default')) return flat.default
  if (!isRequired || depth > MAX_DEPTH) return undefined
  const control = controlOf(schema, root, depth)
  switch (control.kind) {
    case 'const':
      return control.value
    case 'object': {
      const value: Members = {}
      for (const [name, part] of control.properties) {
        const first = initial(part, root, control.required.has(name), depth + 1)
        if (first !== undefined) define(value, name, first)
      }
      return value
    }
    case 'array': {
      const count = Math.min(Math.max(control.least, 0), 20)
      return Array.from({ length: count }, (_, index) => initial(control.prefix[index] ?? control.items ?? true, root, true, depth + 1) ?? null)
    }
    case 'choice':
      return control.alternatives[0] === undefined ? undefined : initial(control.alternatives[0], root, true, depth + 1)
    default:
      return undefined
  }
}

/** Sets a member of any name, `__proto__` too. */
export function define(target: Members, name: string, value: unknown): void {
  Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true })
}

/** A copy with a member set, at its place, or left out where the value is `undefined`. */
export function withMember(of: Members, name: string, value: unknown): Members {
  const copy: Members = {}
  let isSet = false
  for (const [key, old] of Object.entries(of)) {
    if (key !== name) define(copy, key, old)
    else if (value !== undefined) define(copy, key, value)
    if (key === name) isSet = true
  }
  if (!isSet && value !== undefined) define(copy, name, value)
  return copy
}

/** Which alternative a value looks like: the first whose control can hold it, the best one first. */
export function alternativeOf(alternatives: readonly Schema[], root: Schema, value: unknown): number {
  let best = 0
  let bestScore = -Infinity
  alternatives.forEach((schema, index) => {
    const score = scoreOf(schema, root, value, 0)
    if (score > bestScore) [best, bestScore] = [index, score]
  })
  return best
}

/** Of single values. */
function isSame(one: unknown, other: unknown): boolean {
  return one === other || (isExactNumber(one) && isExactNumber(other) && one.rawJSON === other.rawJSON)
}

function scoreOf(schema: Schema, root: Schema, value: unknown, depth: number): number {
  const control = controlOf(schema, root, depth)
  switch (control.kind) {
    case 'const':
      return written(control.value) === written(value) && typeof control.value === typeof value ? 3 : -2
    case 'enum':
      return control.options.some((option) => isSame(option.value, value)) ? 3 : -2
    case 'text':
      return typeof value === 'string' ? 2 : -1
    case 'number':
      // All of those are whole.
      if (isExactNumber(value)) return control.integer ? 2.5 : 2
      return typeof value === 'number' && (!control.integer || Number.isInteger(value)) ? (control.integer ? 2.5 : 2) : -1
    case 'boolean':
      return typeof value === 'boolean' ? 2 : -1
    case 'array':
      return Array.isArray(value) ? 2 : -1
    case 'choice':
      return depth > 3 ? 0 : Math.max(...control.alternatives.map((alternative) => scoreOf(alternative, root, value, depth + 1)))
    case 'json':
      return 0
    case 'object': {
      if (!isMembers(value)) return -1
      let score = 1
      const names = new Map(control.properties)
      for (const key of Object.keys(value)) score += names.has(key) ? 1 : control.others === undefined ? -1 : 0
      for (const name of control.required) if (!Object.hasOwn(value, name)) score -= 2
      for (const [name, part] of names) {
        const flat = flatten(part, root)
        if (isMembers(flat) && Object.hasOwn(flat, 'const') && Object.hasOwn(value, name)) score += isSame(flat.const, value[name]) ? 5 : -5
      }
      return score
    }
  }
}
