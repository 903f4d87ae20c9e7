/** Changes one member in a text of JSON, and leaves the rest of the text as it is, comments too. */
import { member, parse, type JsonMember, type JsonNode } from './jsonc'

/**
 * Sets the member at the path, or deletes it where the value is `undefined`. Objects on the way that are missing
 * are made. Throws where the text is no JSON, or where something else than an object is on the way.
 */
export function setMember(text: string, path: readonly string[], value: unknown): string {
  const document = parse(text)
  if (document.problems.length > 0 || document.root?.kind !== 'object') throw new Error('not an object of JSON')
  const newline = text.includes('\r\n') ? '\r\n' : '\n'
  const unit = indentUnit(text, document.root)
  let node: JsonNode = document.root
  for (const [depth, name] of path.entries()) {
    const found = member(node, name)
    const isLast = depth === path.length - 1
    if (!found || (isLast && !found.value)) {
      if (value === undefined) return text
      const rest = path.slice(depth + 1)
      const nested = rest.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value)
      return insert(text, node, name, nested, unit, newline)
    }
    if (isLast && value === undefined) return remove(text, node, found)
    if (isLast && found.value) {
      const written = write(value, indentAt(text, found.key.from), unit, newline)
      return text.slice(0, found.value.from) + written + text.slice(found.value.to)
    }
    if (found.value?.kind === 'word' && found.value.text === 'null') {
      if (value === undefined) return text
      const nested = path.slice(depth + 1).reduceRight<unknown>((inner, key) => ({ [key]: inner }), value)
      const written = write(nested, indentAt(text, found.key.from), unit, newline)
      return text.slice(0, found.value.from) + written + text.slice(found.value.to)
    }
    if (found.value?.kind !== 'object') throw new Error(`${name} is not an object`)
    node = found.value
  }
  return text
}

/** The white space at the beginning of the line. */
function indentAt(text: string, at: number): string {
  const start = text.lastIndexOf('\n', at - 1) + 1
  return /^[ \t]*/.exec(text.slice(start, at))?.[0] ?? ''
}

function indentUnit(text: string, root: JsonNode): string {
  const first = root.members[0]
  if (!first || !text.slice(root.from, first.key.from).includes('\n')) return '  '
  const indent = indentAt(text, first.key.from).slice(indentAt(text, root.from).length)
  return indent === '' ? '  ' : indent
}

function write(value: unknown, indent: string, unit: string, newline: string): string {
  return JSON.stringify(value, null, unit).split('\n').join(newline + indent)
}

function insert(text: string, object: JsonNode, name: string, value: unknown, unit: string, newline: string): string {
  const last = object.members.at(-1)
  const first = object.members[0]
  const outer = indentAt(text, object.from)
  const isOneLine = first && !text.slice(object.from, object.to).includes('\n')
  const indent = first && !isOneLine ? indentAt(text, first.key.from) : outer + unit
  const body = `${JSON.stringify(name)}: ${write(value, indent, unit, newline)}`
  if (!last) {
    // Comments in an empty object stay before the member.
    const inside = text.slice(object.from + 1, object.to - 1).replace(/\s+$/, '')
    return `${text.slice(0, object.from + 1)}${inside}${newline}${indent}${body}${newline}${outer}${text.slice(object.to - 1)}`
  }
  const valueEnd = last.value?.to ?? last.key.to
  const comma = last.comma === undefined ? ',' : ''
  const end = last.comma === undefined ? valueEnd : last.comma + 1
  if (isOneLine) return `${text.slice(0, end)}${comma} ${JSON.stringify(name)}: ${JSON.stringify(value)}${text.slice(end)}`
  // A comment at the end of the last member's line belongs to that member.
  const line = /^[ \t]*(\/\/[^\r\n]*|\/\*(?:(?!\*\/)[^\n])*\*\/)?/.exec(text.slice(end))?.[0] ?? ''
  const place = end + line.length
  const trailing = last.comma === undefined ? '' : ','
  return `${text.slice(0, end)}${comma}${text.slice(end, place)}${newline}${indent}${body}${trailing}${text.slice(place)}`
}

function remove(text: string, object: JsonNode, found: JsonMember): string {
  const index = object.members.indexOf(found)
  const previous = object.members[index - 1]
  let from = found.key.from
  let to = found.comma !== undefined ? found.comma + 1 : (found.value?.to ?? found.key.to)
  // Remove the whole line with its comment if the member is alone on it.
  const start = text.lastIndexOf('\n', from - 1) + 1
  const isAlone = start > object.from && /^[ \t]*$/.test(text.slice(start, from))
  const tail = /^[ \t]*(\/\/[^\r\n]*)?(\r?\n)/.exec(text.slice(to))?.[0]
  if (isAlone && tail !== undefined) {
    from = start
    to += tail.length
  } else to += /^[ \t]*/.exec(text.slice(to))?.[0].length ?? 0
  const kept = text.slice(0, from)
  // The comma before the last member goes, since JSON without liberties has none at the end.
  if (found.comma === undefined && previous?.comma !== undefined) {
    return kept.slice(0, previous.comma) + kept.slice(previous.comma + 1) + text.slice(to)
  }
  return kept + text.slice(to)
}
