/** Reads the parts of a result and decides how each can be shown. Results come from servers, so every shape is checked. */
import { isMembers, type Members } from '../forms/schema'
import { readJson } from '../lib/json'

export { isMembers }

/** One part of a result. */
export type Block =
  | { kind: 'text'; text: string; mime: string | undefined }
  | { kind: 'media'; media: 'image' | 'audio'; mime: string; data: string }
  | { kind: 'link'; uri: string; name: string; description: string; mime: string | undefined }
  | { kind: 'resource'; uri: string; mime: string | undefined; text: string | undefined; blob: string | undefined }
  | { kind: 'unknown'; type: string; value: unknown }

/** A message of a prompt: its role and its content. */
export interface Message {
  role: string
  blocks: Block[]
}

const text = (value: unknown): string => (typeof value === 'string' ? value : '')
const maybe = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined)

export function blockOf(value: unknown): Block {
  if (!isMembers(value)) return { kind: 'unknown', type: typeof value, value }
  switch (value.type) {
    case 'text':
      return { kind: 'text', text: text(value.text), mime: undefined }
    case 'image':
    case 'audio':
      return { kind: 'media', media: value.type, mime: text(value.mimeType), data: text(value.data) }
    case 'resource_link':
      return { kind: 'link', uri: text(value.uri), name: text(value.title) || text(value.name), description: text(value.description), mime: maybe(value.mimeType) }
    case 'resource':
      return contentsOf(isMembers(value.resource) ? value.resource : {})
    default:
      return { kind: 'unknown', type: text(value.type), value }
  }
}

/** Contents in an answer to `resources/read`. */
function contentsOf(value: Members): Block {
  return {
    kind: 'resource',
    uri: text(value.uri),
    mime: maybe(value.mimeType),
    text: typeof value.text === 'string' ? value.text : undefined,
    blob: typeof value.blob === 'string' ? value.blob : undefined,
  }
}

/** The parts of a tool's result (`content`) or of a resource (`contents`). */
export function blocksOf(result: unknown): Block[] {
  if (!isMembers(result)) return []
  if (Array.isArray(result.content)) return result.content.map(blockOf)
  if (Array.isArray(result.contents)) return result.contents.map((contents) => contentsOf(isMembers(contents) ? contents : {}))
  return isMembers(result.content) ? [blockOf(result.content)] : []
}

/** The messages of a prompt. */
export function messagesOf(result: unknown): Message[] {
  if (!isMembers(result) || !Array.isArray(result.messages)) return []
  return result.messages.map((element) => {
    const message = isMembers(element) ? element : {}
    const content: unknown[] = Array.isArray(message.content) ? message.content : [message.content]
    return { role: text(message.role), blocks: content.map(blockOf) }
  })
}

export function structuredOf(result: unknown): unknown {
  return isMembers(result) ? result.structuredContent : undefined
}

export function isErrorResult(result: unknown): boolean {
  return isMembers(result) && result.isError === true
}

/** Types that may be shown. SVG is safe as the source of a picture: it runs no script and loads nothing. */
const IMAGES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif', 'image/svg+xml'])
const AUDIO = /^audio\/[a-z0-9.+-]+$/

/** A type without its parameters. */
function plain(mime: string): string {
  return mime.toLowerCase().split(';', 1)[0]?.trim() ?? ''
}

/**
 * The address of data that the page may show, only as a picture or a sound. `undefined` where its type is
 * another one, or where it is no base64.
 */
export function dataUrl(media: 'image' | 'audio', mime: string, data: string): string | undefined {
  const type = plain(mime)
  if (media === 'image' ? !IMAGES.has(type) : !AUDIO.test(type)) return undefined
  const base64 = data.replace(/\s/g, '')
  if (base64 === '' || base64.length % 4 === 1 || /[^A-Za-z0-9+/=]/.test(base64)) return undefined
  return `data:${type};base64,${base64}`
}

/** Characters of base64 of a picture that is shown at once, and the pixels that it may have. */
const MAX_AT_ONCE = 4_000_000
const MAX_PIXELS = 40_000_000

/** Whether a picture costs little enough to be shown unasked. An SVG may draw for long, and a PNG says its size. */
export function isLight(mime: string, data: string): boolean {
  const type = plain(mime)
  if (data.length > MAX_AT_ONCE || type === 'image/svg+xml') return false
  if (type !== 'image/png') return true
  try {
    const head = atob(data.replace(/\s/g, '').slice(0, 32))
    const number = (at: number): number => [0, 1, 2, 3].reduce((sum, step) => sum * 256 + head.charCodeAt(at + step), 0)
    return number(16) * number(20) <= MAX_PIXELS
  } catch {
    return false
  }
}

/** Whether a resource's type is one that is shown or played. */
export function mediaOf(mime: string | undefined): 'image' | 'audio' | undefined {
  if (!mime) return undefined
  const type = plain(mime)
  return IMAGES.has(type) ? 'image' : AUDIO.test(type) ? 'audio' : undefined
}

/**
 * Endings of files that are saved. Other types are saved as `.bin`: a server chooses the type, and systems run what
 * its ending names. So HTML and SVG, whose scripts would run in a browser, are not here.
 */
const ENDINGS: Readonly<Record<string, string>> = {
  'image/png': 'png',
  'image/jpeg': 'jpg',
  'image/gif': 'gif',
  'image/webp': 'webp',
  'image/avif': 'avif',
  'audio/wav': 'wav',
  'audio/x-wav': 'wav',
  'audio/mpeg': 'mp3',
  'audio/mp4': 'm4a',
  'audio/aac': 'aac',
  'audio/flac': 'flac',
  'audio/ogg': 'ogg',
  'audio/webm': 'webm',
  'video/mp4': 'mp4',
  'video/webm': 'webm',
  'text/plain': 'txt',
  'text/csv': 'csv',
  'text/markdown': 'md',
  'application/json': 'json',
  'application/pdf': 'pdf',
  'application/zip': 'zip',
}

/** The ending under which data of a type is saved. */
export function endingOf(mime: string): string {
  const type = plain(mime)
  return Object.hasOwn(ENDINGS, type) ? ENDINGS[type]! : 'bin'
}

/** Whether a text begins and ends as a JSON object or array does. */
export function looksLikeJson(text: string): boolean {
  const ends = text.slice(0, 100).trimStart()[0] + (text.slice(-100).trimEnd().at(-1) ?? '')
  return ends === '{}' || ends === '[]'
}

/** The value of a text that is a JSON object or array. */
export function jsonOf(text: string): unknown {
  const first = text.trimStart()[0]
  if (first !== '{' && first !== '[') return undefined
  try {
    return readJson(text)
  } catch {
    return undefined
  }
}

export interface Table {
  columns: string[]
  rows: Members[]
}

const MAX_COLUMNS = 30
/** Rows that are looked at to find the columns. */
const SAMPLE = 1000

/** A list of objects without objects in them. A single member that is such a list counts, too: `{"rows": […]}`. */
export function tableOf(value: unknown): Table | undefined {
  if (isMembers(value)) {
    const members = Object.values(value).filter((member) => Array.isArray(member) || isMembers(member))
    return members.length === 1 && Array.isArray(members[0]) ? tableOf(members[0]) : undefined
  }
  if (!Array.isArray(value) || value.length === 0) return undefined
  const columns = new Set<string>()
  for (const row of value.slice(0, SAMPLE)) {
    if (!isMembers(row)) return undefined
    for (const [name, cell] of Object.entries(row)) {
      if (Array.isArray(cell) || isMembers(cell)) return undefined
      columns.add(name)
      if (columns.size > MAX_COLUMNS) return undefined
    }
  }
  return columns.size === 0 ? undefined : { columns: [...columns], rows: value.filter(isMembers) }
}

/** JSON in lines; `undefined` where it is nested too deeply for that. */
export function pretty(value: unknown): string | undefined {
  try {
    return JSON.stringify(value, null, 2) ?? 'null'
  } catch {
    return undefined
  }
}

/** Whether a text looks like Markdown. */
export function looksLikeMarkdown(text: string): boolean {
  const start = text.slice(0, 20_000)
  return /^#{1,6} \S|^\s*[-*+] \S|^\s*\d+\. \S|^```|\*\*\S|\[[^\]\n]+\]\([^)\n]+\)|^\|.*\|\s*$/m.test(start)
}
