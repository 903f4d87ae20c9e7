/** The tree of the editor's text, read once for each change and only when it is asked for. */
import type { EditorState, Text } from '@codemirror/state'
import { parse, type JsonDocument } from './jsonc'

const trees = new WeakMap<Text, JsonDocument>()

export function treeOf(state: EditorState): JsonDocument {
  let tree = trees.get(state.doc)
  if (!tree) {
    tree = parse(state.doc.toString())
    trees.set(state.doc, tree)
  }
  return tree
}
