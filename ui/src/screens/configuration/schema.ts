/** What the configuration's JSON Schema says of a place in its text: keys, values, descriptions, and what is wrong. */
import type { JsonDocument, JsonNode, Path, SyntaxPlace } from './jsonc'
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
  /** The text behind the colon, with `${}` where the cursor goes. */
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
  /** The value, as JSON. */
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
export function complete(root: Schema, document: JsonDocument, at: number, servers: readonly string[]): Completion | undefined {
  const found = placeAt(document, at)
  if (!found) return undefined
  const place = typedAt(found, document.text, at)
  const options = place.kind === 'key' ? keyOptions(root, place) : valueOptions(root, place, servers)
  return options.length > 0 ? { from: place.from, to: place.to, options } : undefined
}

/** The place as far as it is being typed: what stands behind the cursor may belong to the next member. */
function typedAt(place: SyntaxPlace, text: string, at: number): SyntaxPlace {
  if (place.kind === 'key' && place.node && at === place.from)
    return { ...place, to: at, node: undefined, hasColon: false, taken: [...place.taken, place.node.text] }
  // A quote with a word right behind it opens that word.
  return /[^\s,:\]}/"]/.test(text.charAt(place.to)) ? { ...place, to: Math.max(at, place.from) } : place
}

function keyOptions(root: Schema, place: SyntaxPlace): Option[] {
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
    (snippet): Option => ({ label: snippet.label, detail: snippet.detail, info: undefined, insert: snippet.body, kind: 'snippet' }),
  )
  return [...keys, ...snippets]
}

function valueOptions(root: Schema, place: SyntaxPlace, servers: readonly string[]): Option[] {
  const isServers = place.path.at(-2) === 'servers' && place.path.length > 2
  const names = isServers ? servers.map((name) => ({ text: JSON.stringify(name), description: undefined })) : []
  return [...valuesAt(root, place.path), ...names]
    .filter((value) => !place.taken.includes(value.text.replace(/^"|"$/g, '')))
    .map((value) => ({ label: value.text.replace(/^"|"$/g, ''), detail: '', info: value.description, insert: value.text, kind: 'value' }))
}
