import { expect, it } from 'vitest'
import { read, type Piece } from './markdown'

const show = (found: Piece[]): string =>
  found
    .map((piece) => {
      if (typeof piece === 'string') return piece
      if ('source' in piece) return `{${piece.words}: ${piece.source}}`
      return `<${piece.tag}${piece.start ?? ''}>${show(piece.children)}</>`
    })
    .join('')

it.each([
  ['# A &amp; *b*', '<h3>A & <em>b</></>'],
  ['a `b &amp;`  \nc \\*', '<p>a <code>b &amp;</><br></>c *</>'],
  ['- [x] one\n- **two**', '<ul><li>☑ one</><li><strong>two</></></>'],
  ['3. x\n4. y', '<ol3><li>x</><li>y</></>'],
  ['> q\n\n```js\nlet x\n```\n\n---', '<blockquote><p>q</></><pre><code>let x</></><hr></>'],
  ['|a|\n|-|\n|~~1~~|', '<table><thead><tr><th>a</></></><tbody><tr><td><del>1</></></></></>'],
  // Nothing is an address, nothing is markup.
  ['[here](javascript:alert(1)) <https://a.example>', '<p>here (javascript:alert(1)) https://a.example</>'],
  ['![p](https://a.example/x.png) ![q](data:image/svg+xml;base64,AA)', '<p>[p] https://a.example/x.png [q] data:image/svg+xml;base64,AA</>'],
  ['![p](data:image/png;base64,iVBO)', '<p>{p: data:image/png;base64,iVBO}</>'],
  ['a <b onclick="x">b</b>\n\n<script>\nalert(1)\n</script>', '<p>a <b onclick="x">b</b></><script>\nalert(1)\n</script>'],
  ['&#x202e;x &#60;i>', '<p>\\u{202e}x <i></>'],
])('reads %j', (text, expected) => expect(show(read(text))).toBe(expected))

it('gives markup up that is too deep', () => {
  expect(show(read(`${'> '.repeat(60)}x`))).toContain('> > >')
})
