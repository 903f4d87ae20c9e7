/** A call as the commands of a shell: docs/cli.md, "call", and docs/rest.md. */
import { isMembers, type Members, type Schema } from '../forms/schema'
import { isExactNumber, kindOf, readJson } from './json'

/** A word as a POSIX shell reads it. */
export function quoted(word: string): string {
  return /^[A-Za-z0-9_\-./:,=+@%]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}

/** Control characters but tabs and line breaks: in a terminal that is pasted into they could end the paste, and type. */
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/

/** Whether a command can be pasted without harm. */
export function isPastable(command: string): boolean {
  return !CONTROL.test(command)
}

/** JSON without control characters. */
function json(value: unknown): string {
  return JSON.stringify(value).replace(/[\u007f-\u009f]/g, (character) => `\\u00${character.charCodeAt(0).toString(16)}`)
}

/** `mainstay call SERVER/TOOL key=value`, or with `--args` where a pair would not say the same. */
export function commandOf(name: string, args: Members, schema: Schema): string {
  const pairs = Object.entries(args).map(([key, value]) => pairOf(key, value, schema))
  const words = pairs.every((pair) => pair !== undefined) ? pairs : ['--args', json(args)]
  return ['mainstay', 'call', name, ...words].map(quoted).join(' ')
}

/** A pair is `undefined` where the command would read another value from it. */
function pairOf(key: string, value: unknown, schema: Schema): string | undefined {
  const properties = isMembers(schema) && isMembers(schema.properties) ? schema.properties : {}
  const property = Object.hasOwn(properties, key) ? properties[key] : undefined
  if (key === '' || /^[-@]|=/.test(key)) return undefined
  const word = typeof value === 'string' ? value : JSON.stringify(value)
  if (!isPastable(key + word) || JSON.stringify(asRead(word, property)) !== JSON.stringify(value)) return undefined
  // `@` at the start names a file, unless it stands twice.
  return `${key}=${word.startsWith('@') ? '@' : ''}${word}`
}

/** What the command reads: JSON of a type that the schema has for the key, else a string. */
function asRead(word: string, property: unknown): unknown {
  let value: unknown
  try {
    value = readJson(word)
  } catch {
    return word
  }
  if (isExactNumber(value) && !Number.isFinite(Number(word))) return word
  const types = typesOf(property)
  const kind = kindOf(value)
  const isMeant =
    types.length === 0 ||
    (kind === 'number' ? types.includes('number') || (types.includes('integer') && (Number.isInteger(value) || isExactNumber(value))) : kind !== 'string' && types.includes(kind))
  return isMeant ? value : word
}

/** The types that a schema names; none where it does not say. */
function typesOf(schema: unknown): string[] {
  if (!isMembers(schema)) return []
  if (typeof schema.type === 'string') return [schema.type]
  if (Array.isArray(schema.type)) return schema.type.filter((type) => typeof type === 'string')
  if (Object.hasOwn(schema, 'const')) return [kindOf(schema.const)]
  if (Array.isArray(schema.enum)) return schema.enum.map(kindOf)
  const choices = Array.isArray(schema.anyOf) ? schema.anyOf : Array.isArray(schema.oneOf) ? schema.oneOf : []
  const each = choices.map(typesOf)
  // One choice that says nothing allows everything.
  return each.some((types) => types.length === 0) ? [] : each.flat()
}

/** A request to the REST API, as curl. */
export function curlOf(route: string, body: unknown, origin: string): string {
  return [
    `curl -H "Authorization: Bearer $(cat "\${MAINSTAY_HOME:-\${XDG_STATE_HOME:-$HOME/.local/state}/mainstay}/token")"`,
    "-H 'Content-Type: application/json'",
    `-d ${quoted(json(body))}`,
    quoted(origin + route),
  ].join(' \\\n  ')
}
