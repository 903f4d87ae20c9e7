/** What the configuration's JSON Schema says of a place in its text: keys, values, descriptions, and what is wrong. */
import type { Document, Node, Path, Place } from './jsonc'
import { placeAt, WORDS } from './jsonc'

/** The part of JSON Schema that the configuration's schema uses. */
export interface Schema {
  type?: string | string[]
  properties?: Record<string, Schema | boolean>
  patternProperties?: Record<string, Schema | boolean>
  additionalProperties?: Schema | boolean
  items?: Schema | boolean
  enum?: unknown[]
  const?: unknown
  anyOf?: Schema[]
  oneOf?: Schema[]
  allOf?: Schema[]
  required?: string[]
  description?: string
  title?: string
  default?: unknown
  minimum?: number
  maximum?: number
  exclusiveMinimum?: number
  deprecated?: boolean
  $ref?: string
  $defs?: Record<string, Schema>
}

const MAX_DEPTH = 20

/** The schema itself and its alternatives, with references followed. */
function alternatives(root: Schema, schema: Schema, depth = 0): Schema[] {
  if (depth > MAX_DEPTH) return []
  const parts = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])]
  const name = schema.$ref?.replace('#/$defs/', '')
  const target = name ? root.$defs?.[name] : undefined
  if (target) parts.push(target)
  return [schema, ...parts.flatMap((part) => alternatives(root, part, depth + 1))]
}

function isSchema(schema: Schema | boolean | undefined): schema is Schema {
  return typeof schema === 'object'
}

function isNote(name: string): boolean {
  return /^([$_]|\/\/)/.test(name)
}

/** All schemas that hold at a path. */
export function schemasAt(root: Schema, path: Path): Schema[] {
  let here = alternatives(root, root)
  for (const step of path) {
    here = here.flatMap((schema) => {
      const next = typeof step === 'number' ? schema.items : (schema.properties?.[step] ?? schema.additionalProperties)
      return isSchema(next) ? alternatives(root, next) : []
    })
  }
  return here
}

export function describe(root: Schema, path: Path): string | undefined {
  return schemasAt(root, path).find((schema) => schema.description)?.description
}

export interface Key {
  name: string
  description: string | undefined
  /** What is set behind the colon, with `${}` where the cursor goes. */
  template: string
  detail: string
}

/** Keys that an object at the path may have. */
export function keysAt(root: Schema, path: Path): Key[] {
  const keys = new Map<string, Key>()
  for (const schema of schemasAt(root, path)) {
    for (const [name, property] of Object.entries(schema.properties ?? {})) {
      if (!isSchema(property) || keys.has(name)) continue
      const choices = alternatives(root, property)
      if (choices.some((choice) => choice.deprecated)) continue
      const description = choices.find((choice) => choice.description)?.description
      keys.set(name, { name, description, template: templateOf(choices), detail: typesOf(choices).join(', ') })
    }
  }
  return [...keys.values()]
}

function typesOf(choices: Schema[]): string[] {
  const types = choices.flatMap((choice) => {
    if (choice.enum) return ['word']
    return choice.type === undefined ? [] : [choice.type].flat()
  })
  return [...new Set(types)].filter((type) => type !== 'null')
}

function templateOf(choices: Schema[]): string {
  const preset = choices.find((choice) => choice.default !== undefined)?.default
  if (preset !== undefined) return JSON.stringify(preset)
  switch (typesOf(choices)[0]) {
    case 'object':
      return '{${}}'
    case 'array':
      return '[${}]'
    case 'string':
      return '"${}"'
    case 'boolean':
      return '${true}'
    default:
      return choices.some((choice) => typeof choice.enum?.[0] === 'string') ? '"${}"' : '${}'
  }
}

export interface Value {
  /** As JSON. */
  text: string
  description: string | undefined
}

/** Values that are known for a place: words of an enumeration, `true` and `false`. */
export function valuesAt(root: Schema, path: Path): Value[] {
  const found = new Map<string, Value>()
  const description = describe(root, path)
  for (const schema of schemasAt(root, path)) {
    const values = schema.enum ?? (schema.const === undefined ? [] : [schema.const])
    for (const value of values) found.set(JSON.stringify(value), { text: JSON.stringify(value), description })
    if ([schema.type].flat().includes('boolean')) {
      for (const text of ['true', 'false']) found.set(text, { text, description })
    }
  }
  found.delete('null')
  return [...found.values()]
}

export interface Option {
  label: string
  detail: string
  info: string | undefined
  /** With `${}` and `${name}` where the cursor goes, one after the other. */
  insert: string
  kind: 'key' | 'value' | 'snippet'
}

export interface Completion {
  from: number
  to: number
  options: Option[]
}

/** New entries, with what is to be filled in. */
const SNIPPETS: Record<string, { label: string; detail: 'command' | 'url' | 'profile'; body: string }[]> = {
  server: [
    {
      label: 'new-server',
      detail: 'command',
      body: '"${name}": {\n\t"command": "${npx}",\n\t"args": ["${-y}", "${package}"]\n}',
    },
    { label: 'new-remote-server', detail: 'url', body: '"${name}": {\n\t"url": "${https://example.com/mcp}"\n}' },
  ],
  profile: [{ label: 'new-profile', detail: 'profile', body: '"${name}": {\n\t"servers": ["${*}"]\n}' }],
}

/** What can be typed at a position. `servers` are the names for `profiles.NAME.servers` and `alerts[].servers`. */
export function complete(root: Schema, document: Document, at: number, servers: readonly string[]): Completion | undefined {
  const place = placeAt(document, at)
  if (!place) return undefined
  const options = place.kind === 'key' ? keyOptions(root, place) : valueOptions(root, place, servers)
  return options.length > 0 ? { from: place.from, to: place.to, options } : undefined
}

function keyOptions(root: Schema, place: Place): Option[] {
  const keys = keysAt(root, place.path)
    .filter((key) => !place.taken.includes(key.name))
    .map((key): Option => ({
      label: key.name,
      detail: key.detail,
      info: key.description,
      insert: place.hasColon ? JSON.stringify(key.name) : `${JSON.stringify(key.name)}: ${key.template}`,
      kind: 'key',
    }))
  if (place.path.length !== 1 || place.hasColon) return keys
  const first = place.path[0]
  const group = first === 'mcpServers' || first === 'servers' ? 'server' : first === 'profiles' ? 'profile' : undefined
  const snippets = (group ? (SNIPPETS[group] ?? []) : []).map(
    (it): Option => ({ label: it.label, detail: it.detail, info: undefined, insert: it.body, kind: 'snippet' }),
  )
  return [...keys, ...snippets]
}

function valueOptions(root: Schema, place: Place, servers: readonly string[]): Option[] {
  const isServers = place.path.at(-2) === 'servers' && place.path.length > 2
  const names = isServers ? servers.map((name) => ({ text: JSON.stringify(name), description: undefined })) : []
  return [...valuesAt(root, place.path), ...names]
    .filter((value) => !place.taken.includes(value.text.replace(/^"|"$/g, '')))
    .map((value) => ({ label: value.text.replace(/^"|"$/g, ''), detail: '', info: value.description, insert: value.text, kind: 'value' }))
}

export interface SchemaProblem {
  from: number
  to: number
  path: string
  kind: 'unknownKey' | 'wrongType' | 'wrongValue' | 'tooSmall' | 'tooLarge'
  /** What was expected. */
  expected: string
}

/** What the schema alone finds wrong. The daemon knows more; this is for while it cannot be asked. */
export function problemsOf(root: Schema, document: Document): SchemaProblem[] {
  const found: SchemaProblem[] = []
  if (document.root) look(document.root, [], alternatives(root, root))
  return found

  function look(node: Node, path: Path, schemas: Schema[]): void {
    const problem = fault(node, schemas)
    if (problem) {
      found.push({ from: node.from, to: node.to, path: path.join('.'), ...problem })
      return
    }
    if (node.kind === 'array') {
      const inside = schemas.flatMap((it) => (isSchema(it.items) ? alternatives(root, it.items) : []))
      node.items.forEach((item, index) => look(item, [...path, index], inside))
    }
    if (node.kind !== 'object') return
    const objects = schemas.filter((it) => it.properties || it.additionalProperties !== undefined)
    const isClosed = objects.some((it) => it.additionalProperties === false)
    for (const { key, value } of node.members) {
      const inside = objects.flatMap((it) => {
        const next = it.properties?.[key.text] ?? it.additionalProperties
        return isSchema(next) ? alternatives(root, next) : []
      })
      const isKnown = objects.some((it) => it.properties?.[key.text] !== undefined || isSchema(it.additionalProperties))
      const here = [...path, key.text]
      if (isClosed && !isKnown && !isNote(key.text)) {
        const names = objects.flatMap((it) => Object.keys(it.properties ?? {}))
        found.push({ from: key.from, to: key.to, path: here.join('.'), kind: 'unknownKey', expected: closest(key.text, names) })
      } else if (value && inside.length > 0) look(value, here, inside)
    }
  }
}

function fault(node: Node, schemas: Schema[]): Pick<SchemaProblem, 'kind' | 'expected'> | undefined {
  const leaves = schemas.filter((it) => it.type !== undefined || it.enum)
  if (leaves.length === 0) return undefined
  const typed = leaves.filter((it) => (it.enum ? it.enum.some((value) => typeof value === typeof plain(node)) : fitsType(node, it)))
  if (typed.length === 0) return { kind: 'wrongType', expected: typesOf(leaves).join(', ') }
  const value = plain(node)
  const fits = typed.filter((it) => !it.enum || it.enum.includes(value))
  if (fits.length === 0) return { kind: 'wrongValue', expected: typed.flatMap((it) => it.enum ?? []).join(', ') }
  if (typeof value === 'number') {
    const low = fits.find((it) => value < (it.minimum ?? -Infinity) || value <= (it.exclusiveMinimum ?? -Infinity))
    if (low && fits.length === 1) return { kind: 'tooSmall', expected: String(low.minimum ?? low.exclusiveMinimum) }
    const high = fits.find((it) => value > (it.maximum ?? Infinity))
    if (high && fits.length === 1) return { kind: 'tooLarge', expected: String(high.maximum) }
  }
  return undefined
}

function plain(node: Node): unknown {
  if (node.kind === 'string') return node.text
  if (node.kind === 'number') return Number(node.text)
  if (node.kind === 'word') return WORDS.get(node.text)
  return undefined
}

function fitsType(node: Node, schema: Schema): boolean {
  const types = [schema.type].flat()
  const value = plain(node)
  if (node.kind === 'object' || node.kind === 'array') return types.includes(node.kind)
  if (value === null) return types.includes('null')
  if (typeof value === 'number') return types.includes('number') || (types.includes('integer') && Number.isInteger(value))
  return types.includes(typeof value)
}

/** The known name that is most like the given one, if any is. */
function closest(name: string, names: string[]): string {
  let best = ''
  let least = Math.max(2, Math.floor(name.length / 3)) + 1
  for (const known of names) {
    const distance = editDistance(name.toLowerCase(), known.toLowerCase())
    if (distance < least) {
      least = distance
      best = known
    }
  }
  return best
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i]
    for (let j = 1; j <= b.length; j += 1) {
      next[j] = Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
