/** Colours the visible part of the text by its tree: keys, values, comments, placeholders of secrets, the brackets at the cursor. */
import type { Range } from '@codemirror/state'
import { Decoration, ViewPlugin, type DecorationSet, type EditorView, type ViewUpdate } from '@codemirror/view'
import type { JsonNode } from './jsonc'
import { treeOf } from './tree'

const mark = (name: string): Decoration => Decoration.mark({ class: `cm-${name}` })
const MARKS = {
  key: mark('key'),
  string: mark('string'),
  number: mark('word'),
  word: mark('word'),
  comment: mark('comment'),
  secret: mark('secret'),
  bracket: mark('bracket'),
}
const SECRET = /\$\{secret:[^}]*\}/g

function colour(view: EditorView): DecorationSet {
  const { from, to } = view.viewport
  const found: Range<Decoration>[] = []
  const head = view.state.selection.main.head
  const add = (name: keyof typeof MARKS, start: number, end: number): void => {
    if (start < end && start <= to && end >= from) found.push(MARKS[name].range(start, end))
  }
  const visit = (node: JsonNode): void => {
    if (node.from > to || node.to < from) return
    for (const { key, value } of node.members) {
      add('key', key.from, key.to)
      if (value) visit(value)
    }
    node.items.forEach(visit)
    if (node.kind !== 'object' && node.kind !== 'array') add(node.kind, node.from, node.to)
    else if (!node.open && [node.from, node.from + 1, node.to - 1, node.to].includes(head)) {
      add('bracket', node.from, node.from + 1)
      add('bracket', node.to - 1, node.to)
    }
  }
  const { root, comments } = treeOf(view.state)
  if (root) visit(root)
  for (const comment of comments) add('comment', comment.from, comment.to)
  for (const match of view.state.sliceDoc(from, to).matchAll(SECRET)) add('secret', from + match.index, from + match.index + match[0].length)
  return Decoration.set(found, true)
}

export const colours = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet
    constructor(view: EditorView) {
      this.decorations = colour(view)
    }
    update(update: ViewUpdate): void {
      if (update.docChanged || update.viewportChanged || update.selectionSet) this.decorations = colour(update.view)
    }
  },
  { decorations: (plugin) => plugin.decorations },
)
