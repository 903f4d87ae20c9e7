/**
 * Reads JSON, and JSON with the liberties of JSON5, into a tree with places. It reads what is being typed, too:
 * whatever is missing or wrong is noted, and reading goes on.
 */
import { numberOf } from '../../lib/json'

export type Path = readonly (string | number)[]

export interface JsonNode {
  kind: 'object' | 'array' | 'string' | 'number' | 'word'
  from: number
  to: number
  /** The text that a string or a word means; a number as it stands. */
  text: string
  members: JsonMember[]
  items: JsonNode[]
  /** Whether a brace, a bracket or a quote at the end is missing. */
  open: boolean
}

export interface JsonMember {
  key: JsonNode
  value: JsonNode | undefined
  /** Where the colon stands. */
  colon: number | undefined
  /** Where the comma behind the member stands. */
  comma: number | undefined
}

export interface Problem {
  from: number
  to: number
  message: 'unexpected' | 'unclosed' | 'expectedKey' | 'expectedColon' | 'expectedValue' | 'expectedComma' | 'duplicate' | 'tooDeep'
}

export interface JsonDocument {
  text: string
  root: JsonNode | undefined
  problems: Problem[]
  comments: { from: number; to: number }[]
}

const MAX_DEPTH = 200
const MAX_PROBLEMS = 50
/** What words mean. */
export const WORDS: ReadonlyMap<string, boolean | null> = new Map([['true', true], ['false', false], ['null', null]])
const WORD = /[^\s,:[\]{}"'/]+/y

export function parse(text: string): JsonDocument {
  const comments: JsonDocument['comments'] = []
  const problems: Problem[] = []
  let at = 0

  const problem = (from: number, to: number, message: Problem['message']): void => {
    if (problems.length < MAX_PROBLEMS) problems.push({ from, to: Math.max(to, from), message })
  }

  function skip(): void {
    for (;;) {
      while (at < text.length && /\s/.test(text[at]!)) at += 1
      const from = at
      if (text.startsWith('//', at)) {
        const end = text.indexOf('\n', at)
        at = end < 0 ? text.length : end
      } else if (text.startsWith('/*', at)) {
        const end = text.indexOf('*/', at + 2)
        at = end < 0 ? text.length : end + 2
      } else return
      comments.push({ from, to: at })
    }
  }

  function leaf(kind: JsonNode['kind'], from: number, meaning: string, open = false): JsonNode {
    return { kind, from, to: at, text: meaning, members: [], items: [], open }
  }

  function string(): JsonNode {
    const from = at
    const quote = text[at]!
    at += 1
    let meaning = ''
    while (at < text.length) {
      const character = text[at]!
      if (character === quote) {
        at += 1
        return leaf('string', from, meaning)
      }
      if (character === '\n') break
      if (character === '\\') {
        const [escaped, length] = unescape(text, at)
        meaning += escaped
        at += length
      } else {
        meaning += character
        at += 1
      }
    }
    problem(from, at, 'unclosed')
    return leaf('string', from, meaning, true)
  }

  function word(): JsonNode | undefined {
    WORD.lastIndex = at
    const found = WORD.exec(text)?.[0]
    if (!found) return undefined
    const from = at
    at += found.length
    return leaf(/^[-+]?(\d|\.\d)/.test(found) ? 'number' : 'word', from, found)
  }

  function scalar(): JsonNode | undefined {
    return text[at] === '"' || text[at] === "'" ? string() : word()
  }

  function value(depth: number): JsonNode | undefined {
    if (depth > MAX_DEPTH) {
      problem(at, text.length, 'tooDeep')
      at = text.length
      return undefined
    }
    if (text[at] === '{') return object(depth)
    if (text[at] === '[') return array(depth)
    return scalar()
  }

  function object(depth: number): JsonNode {
    const node = leaf('object', at, '')
    const names = new Set<string>()
    at += 1
    for (;;) {
      skip()
      const sign = text[at]
      if (sign === undefined || sign === ']') return close(node, sign)
      if (sign === '}') return close(node, sign)
      const key = scalar()
      if (!key) {
        problem(at, at + 1, sign === ',' ? 'expectedKey' : 'unexpected')
        at += 1
        continue
      }
      if (names.has(key.text)) problem(key.from, key.to, 'duplicate')
      names.add(key.text)
      const member: JsonMember = { key, value: undefined, colon: undefined, comma: undefined }
      node.members.push(member)
      const keyEnd = at
      skip()
      if (text[at] === ':') {
        member.colon = at
        at += 1
        skip()
        // A key on the next line that is followed by a colon is the next member: this value is still being typed.
        if (!isKeyAhead()) member.value = value(depth + 1)
        if (!member.value) problem(member.colon, member.colon + 1, 'expectedValue')
      } else problem(key.from, keyEnd, 'expectedColon')
      const end = member.value?.to ?? (member.colon ?? keyEnd - 1) + 1
      skip()
      if (text[at] === ',') {
        member.comma = at
        at += 1
      } else if (at < text.length && text[at] !== '}' && text[at] !== ']') problem(end - 1, end, 'expectedComma')
    }
  }

  function isKeyAhead(): boolean {
    if (text[at] !== '"') return false
    return /^"(?:[^"\\\n]|\\.)*"\s*:/.test(text.slice(at, at + 300))
  }

  function array(depth: number): JsonNode {
    const node = leaf('array', at, '')
    at += 1
    for (;;) {
      skip()
      const sign = text[at]
      if (sign === undefined || sign === '}') return close(node, sign)
      if (sign === ']') return close(node, sign)
      const item = value(depth + 1)
      if (!item) {
        if (at < text.length) problem(at, at + 1, sign === ',' ? 'expectedValue' : 'unexpected')
        at += 1
        continue
      }
      node.items.push(item)
      skip()
      if (text[at] === ',') at += 1
      else if (at < text.length && text[at] !== ']' && text[at] !== '}') problem(item.to - 1, item.to, 'expectedComma')
    }
  }

  /** The other kind of bracket ends the node too, and is left to the one around it. */
  function close(node: JsonNode, sign: string | undefined): JsonNode {
    const closing = node.kind === 'object' ? '}' : ']'
    if (sign === closing) at += 1
    else {
      node.open = true
      problem(node.from, node.from + 1, 'unclosed')
      if (sign !== undefined && at === node.from + 1) at += 1
    }
    at = Math.min(at, text.length)
    node.to = at
    return node
  }

  if (text.startsWith('\ufeff')) at = 1
  skip()
  const root = value(0)
  skip()
  if (at < text.length) problem(at, at + 1, 'unexpected')
  return { text, root, problems, comments }
}

function unescape(text: string, at: number): [string, number] {
  const next = text[at + 1]
  const simple: Record<string, string> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', v: '\v', '0': '\0', '\n': '' }
  if (next === undefined) return ['', 1]
  if (next === 'u') {
    const digits = text.slice(at + 2, at + 6)
    if (/^[0-9a-fA-F]{4}$/.test(digits)) return [String.fromCharCode(parseInt(digits, 16)), 6]
  }
  return [simple[next] ?? next, 2]
}

/** What a node means as a value; what is missing is left out. */
export function valueOf(node: JsonNode): unknown {
  switch (node.kind) {
    case 'object':
      return Object.fromEntries(node.members.flatMap((member) => (member.value ? [[member.key.text, valueOf(member.value)]] : [])))
    case 'array':
      return node.items.map(valueOf)
    case 'string':
      return node.text
    case 'number':
      return numberOf(node.text) ?? Number(node.text)
    case 'word':
      return WORDS.has(node.text) ? WORDS.get(node.text) : node.text
  }
}

export function member(node: JsonNode | undefined, name: string): JsonMember | undefined {
  // Of a key that comes twice the last one counts.
  return node?.members.findLast((candidate) => candidate.key.text === name)
}

/** The node at a path. */
export function find(root: JsonNode | undefined, path: Path): JsonNode | undefined {
  let node = root
  for (const step of path) node = typeof step === 'number' ? node?.items[step] : member(node, step)?.value
  return node
}

/**
 * The place of a path as findings write it, `mcpServers.files.args[0]`: of the key where there is one. Names may
 * have dots. If a part is missing, the place of what is there.
 */
export function findDotted(root: JsonNode | undefined, dotted: string): { from: number; to: number } | undefined {
  let node = root
  let rest = dotted
  let place = node && { from: node.from, to: node.from + 1 }
  while (node && rest !== '') {
    const known: JsonNode = node
    const index = /^\.?\[?(\d+)\]?(?=[.[]|$)/.exec(rest)
    if (known.kind === 'array' && index) {
      node = known.items[Number(index[1])]
      if (!node) return place
      place = { from: node.from, to: node.to }
      rest = rest.slice(index[0].length)
      continue
    }
    rest = rest.replace(/^\./, '')
    const fitting = known.members
      .filter(({ key }) => rest === key.text || rest.startsWith(`${key.text}.`) || rest.startsWith(`${key.text}[`))
      .sort((a, b) => b.key.text.length - a.key.text.length)[0]
    if (!fitting) return place
    place = { from: fitting.key.from, to: fitting.key.to }
    rest = rest.slice(fitting.key.text.length)
    node = fitting.value
  }
  return place
}

export interface SyntaxPlace {
  /** The path of the value that is typed, or of the object whose key is. */
  path: (string | number)[]
  kind: 'key' | 'value'
  /** What of the text is replaced by a completion. */
  from: number
  to: number
  /** The node at the place, if it has begun. */
  node: JsonNode | undefined
  /** Keys that the object has already, and items that the array has. */
  taken: string[]
  /** For a key: whether its colon is there. */
  hasColon: boolean
}

/** Where in the structure a position is; `undefined` in comments and outside. */
export function placeAt(document: JsonDocument, at: number): SyntaxPlace | undefined {
  if (document.comments.some((comment) => at > comment.from && at <= comment.to)) return undefined
  const path: (string | number)[] = []
  let node = document.root
  for (;;) {
    if (!node) return undefined
    if (node.kind === 'object') {
      if (at <= node.from || (at >= node.to && !node.open)) return undefined
      const taken = node.members.map((member) => member.key.text)
      const inside = node.members.find(({ key }) => at >= key.from && at <= key.to)
      if (inside) {
        const others = taken.filter((name) => name !== inside.key.text)
        const { from, to } = inside.key
        return { path, kind: 'key', from, to, node: inside.key, taken: others, hasColon: inside.colon !== undefined }
      }
      const before = node.members.findLast((member) => member.key.to < at)
      const after = before?.colon !== undefined && at > before.colon
      if (before && after && before.value && contains(before.value, at)) {
        path.push(before.key.text)
        node = before.value
        if (node.kind === 'object' || node.kind === 'array') continue
        return { path, kind: 'value', from: node.from, to: node.to, node, taken: [], hasColon: false }
      }
      if (before && after && (!before.value || at <= before.value.from)) {
        return { path: [...path, before.key.text], kind: 'value', from: at, to: at, node: undefined, taken: [], hasColon: false }
      }
      if (before && !after) return undefined
      return { path, kind: 'key', from: at, to: at, node: undefined, taken, hasColon: false }
    }
    if (node.kind === 'array') {
      if (at <= node.from || (at >= node.to && !node.open)) return undefined
      const index = node.items.findIndex((item) => contains(item, at))
      const item = node.items[index]
      const taken = node.items.filter((other) => other !== item && other.kind === 'string').map((other) => other.text)
      if (!item) {
        path.push(node.items.filter((other) => other.to <= at).length)
        return { path, kind: 'value', from: at, to: at, node: undefined, taken, hasColon: false }
      }
      path.push(index)
      if (item.kind === 'object' || item.kind === 'array') {
        node = item
        continue
      }
      return { path, kind: 'value', from: item.from, to: item.to, node: item, taken, hasColon: false }
    }
    return { path, kind: 'value', from: node.from, to: node.to, node, taken: [], hasColon: false }
  }
}

/** Structures contain what is between their brackets; scalars their ends, too. */
function contains(node: JsonNode, at: number): boolean {
  if (node.kind === 'object' || node.kind === 'array') return at > node.from && (node.open ? at <= node.to : at < node.to)
  return at >= node.from && at <= node.to
}

/** Line and column, from 1, of a position. */
export function lineAt(text: string, at: number): { line: number; column: number } {
  const before = text.slice(0, at)
  const start = before.lastIndexOf('\n') + 1
  return { line: before.split('\n').length, column: at - start + 1 }
}

/** The position of a line and a column, from 1. */
export function offsetOf(text: string, line: number, column: number): number {
  let start = 0
  for (let left = line - 1; left > 0; left -= 1) {
    const next = text.indexOf('\n', start)
    if (next < 0) break
    start = next + 1
  }
  const end = text.indexOf('\n', start)
  return Math.min(start + Math.max(column - 1, 0), end < 0 ? text.length : end)
}
