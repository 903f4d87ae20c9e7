/** Markdown as HTML without anything that runs, loads or leads elsewhere unseen. */
import DOMPurify from 'dompurify'
import { Marked } from 'marked'

const TAGS = [
  ...['h3', 'p', 'br', 'hr', 'ul', 'ol', 'li', 'blockquote', 'pre', 'code', 'em', 'strong', 'del'],
  ...['table', 'thead', 'tbody', 'tr', 'th', 'td', 'img', 'span'],
]

const purify = DOMPurify()
const marked = new Marked({ async: false, gfm: true, breaks: false })
marked.use({
  renderer: {
    // They stand below the headings of the page, and skip no level.
    heading({ tokens }) {
      return `<h3>${this.parser.parseInline(tokens)}</h3>`
    },
    // Markup in the text is shown as text.
    html({ text }) {
      return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
    },
  },
})

/** Pictures that are part of the text are kept. All others are named. */
const PICTURE = /^data:image\/(png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/=\s]+$/

// Links become text with the address beside it: nothing can be clicked, and where it leads is seen.
purify.addHook('uponSanitizeElement', (node, data) => {
  if (data.tagName !== 'a' || !(node instanceof Element)) return
  const address = node.getAttribute('href') ?? ''
  const text = node.textContent ?? ''
  const span = node.ownerDocument.createElement('span')
  span.textContent = address && address !== text ? `${text} (${address})` : text
  node.replaceWith(span)
})
purify.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName !== 'IMG') return
  if (PICTURE.test(node.getAttribute('src') ?? '')) return
  const span = node.ownerDocument.createElement('span')
  const address = node.getAttribute('src') ?? ''
  span.textContent = `[${node.getAttribute('alt') ?? ''}] ${address}`.trim()
  node.replaceWith(span)
})

export function render(text: string): string {
  const html = marked.parse(text) as string
  return purify.sanitize(html, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ['src', 'alt', 'align', 'start'],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    ALLOWED_URI_REGEXP: /^(data:image\/|https?:|[^:]*$)/i,
  })
}
