/**
 * Markdown as a tree of the few elements that the page shows. Nothing of a text becomes HTML, an attribute or an
 * address: markup in it stays text, links are text with the address beside it, and only pictures that are part
 * of the text are pictures.
 */
import { Lexer, type MarkedToken, type Token } from 'marked'
import { visible } from '../lib/visible'

export type Tag =
  | 'h3' | 'p' | 'br' | 'hr' | 'ul' | 'ol' | 'li' | 'blockquote' | 'pre' | 'code' | 'em' | 'strong' | 'del'
  | 'table' | 'thead' | 'tbody' | 'tr' | 'th' | 'td'

export interface Element {
  tag: Tag
  children: Piece[]
  /** The first number of a numbered list. */
  start?: number
}

export interface Picture {
  source: string
  words: string
}

export type Piece = string | Element | Picture

const PICTURE = /^data:image\/(png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/=\s]+$/
/** Deeper markup is shown as it is written. */
const MAX_DEPTH = 40

export function read(text: string): Piece[] {
  return pieces(Lexer.lex(text, { gfm: true }), 0)
}

/** How many pieces there are, with those in others. */
export function size(found: readonly Piece[]): number {
  return found.reduce((sum, piece) => sum + 1 + (typeof piece !== 'string' && 'children' in piece ? size(piece.children) : 0), 0)
}

function pieces(tokens: Token[] | undefined, depth: number): Piece[] {
  const found = (tokens ?? []).flatMap((token) => (depth > MAX_DEPTH ? [token.raw] : piece(token as MarkedToken, depth + 1)))
  return found.map((piece) => (typeof piece === 'string' ? visible(piece) : piece))
}

function piece(token: MarkedToken, depth: number): Piece[] {
  const element = (tag: Tag, children: Piece[] = pieces('tokens' in token ? token.tokens : undefined, depth)): Piece[] => [{ tag, children }]
  switch (token.type) {
    case 'space':
    case 'def':
      return []
    case 'heading':
      // They stand below the headings of the page, and skip no level.
      return element('h3')
    case 'paragraph':
      return element('p')
    case 'blockquote':
    case 'em':
    case 'strong':
    case 'del':
    case 'br':
    case 'hr':
      return element(token.type)
    case 'code':
      return element('pre', element('code', [visible(token.text)]))
    case 'codespan':
      return element('code', [visible(token.text)])
    case 'list': {
      const items = token.items.flatMap((item): Piece[] => [{ tag: 'li', children: pieces(item.tokens, depth) }])
      return [{ tag: token.ordered ? 'ol' : 'ul', children: items, ...(typeof token.start === 'number' && { start: token.start }) }]
    }
    case 'checkbox':
      return [token.checked ? '☑ ' : '☐ ']
    case 'table': {
      const row = (cells: typeof token.header, tag: Tag): Element => ({
        tag: 'tr',
        children: cells.map((cell) => ({ tag, children: pieces(cell.tokens, depth) })),
      })
      return element('table', [
        { tag: 'thead', children: [row(token.header, 'th')] },
        { tag: 'tbody', children: token.rows.map((cells) => row(cells, 'td')) },
      ])
    }
    case 'link': {
      const shown = pieces(token.tokens, depth)
      return token.href && token.href !== token.text ? [...shown, ` (${token.href})`] : shown
    }
    case 'image':
      return PICTURE.test(token.href) ? [{ source: token.href, words: visible(token.text) }] : [`[${token.text}] ${token.href}`.trim()]
    case 'text':
      return token.tokens ? pieces(token.tokens, depth) : [decoded(token.text)]
    case 'escape':
      return [token.text]
    default:
      return [token.raw]
  }
}

const NAMED: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' }

/** The lexer reads numeric character references, and leaves names. */
function decoded(text: string): string {
  return text.replace(/&(\w+);/g, (whole, name: string) => NAMED[name] ?? whole)
}
