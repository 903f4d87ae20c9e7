/** A call as the commands of a shell: docs/cli.md, "call", and docs/rest.md. */
import { isMembers, type Members, type Schema } from '../../forms/schema'

/** A word as a POSIX shell reads it. */
export function quoted(word: string): string {
  return /^[A-Za-z0-9_\-./:,=+@%]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}

/** `mainstay call SERVER/TOOL key=value`, or with `--args` where a pair would not say the same. */
export function commandOf(name: string, args: Members, schema: Schema): string {
  const pairs = Object.entries(args).map(([key, value]) => pairOf(key, value, schema))
  const words = pairs.every((pair) => pair !== undefined) ? pairs : ['--args', JSON.stringify(args)]
  return ['mainstay', 'call', name, ...words].map(quoted).join(' ')
}

/**
 * VALUE is taken as JSON where that is of a type the schema has for KEY, else as a string; `@` at its
 * start names a file. A pair is `undefined` where this would change the value.
 */
function pairOf(key: string, value: unknown, schema: Schema): string | undefined {
  const properties = isMembers(schema) && isMembers(schema.properties) ? schema.properties : {}
  const property = Object.hasOwn(properties, key) ? properties[key] : undefined
  const type = isMembers(property) ? property.type : undefined
  if (typeof type !== 'string' || key === '' || /^[-@]|=/.test(key)) return undefined
  if (typeof value === 'string' && type === 'string') {
    if (isJson(value)) return `${key}=${JSON.stringify(value)}`
    return `${key}=${value.startsWith('@') ? '@' : ''}${value}`
  }
  const fits =
    (typeof value === 'boolean' && type === 'boolean') ||
    (typeof value === 'number' && (type === 'number' || (type === 'integer' && Number.isInteger(value))))
  return fits ? `${key}=${JSON.stringify(value)}` : undefined
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** The same call over REST. */
export function curlOf(name: string, args: Members, origin: string): string {
  const body = JSON.stringify({ tool: name, arguments: args })
  return [
    'curl -H "Authorization: Bearer $(cat ~/.local/state/mainstay/token)"',
    "-H 'Content-Type: application/json'",
    `-d ${quoted(body)}`,
    quoted(`${origin}/api/mcp-tools/call`),
  ].join(' \\\n  ')
}
