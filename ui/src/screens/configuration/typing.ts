/** What the editor does by itself where somebody types: pairs of brackets and quotes, and indentation. */
import { EditorSelection, MapMode, StateEffect, StateField, type ChangeSpec, type EditorState, type Extension } from '@codemirror/state'
import { EditorView, type Command } from '@codemirror/view'

export const INDENT = '  '
const PAIRS: Readonly<Record<string, string>> = { '{': '}', '[': ']', '"': '"' }

/** The white space at the beginning of the line. */
export function indentAt(state: EditorState, at: number): string {
  return /^\s*/.exec(state.doc.lineAt(at).text)?.[0] ?? ''
}

/** Where the editor put closing signs in by itself. */
export const closed = StateEffect.define<readonly number[]>()
const ownSigns = StateField.define<readonly number[]>({
  create: () => [],
  update: (own, { changes, effects }) => [
    ...own.flatMap((at) => changes.mapPos(at, 1, MapMode.TrackAfter) ?? []),
    ...effects.flatMap((effect) => (effect.is(closed) ? effect.value : [])),
  ],
})

/** An opening sign brings its closing one where nothing follows; one that the editor put in is typed over. */
const signs: Extension = EditorView.inputHandler.of((view, from, to, text) => {
  const { state } = view
  const after = state.sliceDoc(to, to + 1)
  if (text.length !== 1 || from !== to || view.composing || state.readOnly) return false
  if (after === text && state.field(ownSigns).includes(to)) {
    view.dispatch({ selection: { anchor: to + 1 }, userEvent: 'select' })
    return true
  }
  const closing = PAIRS[text]
  const before = state.sliceDoc(Math.max(from - 1, 0), from)
  const isWord = /[\w"\\]/
  if (closing && !/[^\s,:\]}]/.test(after) && !(text === '"' && isWord.test(before))) {
    view.dispatch({ changes: { from, insert: text + closing }, selection: { anchor: from + 1 }, effects: closed.of([from + 1]), userEvent: 'input.type' })
    return true
  }
  // A closing bracket alone in its line stands one step back.
  const line = state.doc.lineAt(from)
  const start = state.sliceDoc(line.from, from)
  if ('}]'.includes(text) && /^\s+$/.test(start) && start.endsWith(INDENT)) {
    view.dispatch({ changes: { from: from - INDENT.length, to: from, insert: text }, selection: { anchor: from - INDENT.length + 1 }, userEvent: 'input.type' })
    return true
  }
  return false
})

export const pairs: Extension = [ownSigns, signs]

/** A new line as deep as this one; one step deeper behind an opening bracket, whose closing one gets a line, too. */
export const newLine: Command = (view) => {
  const { state } = view
  if (state.readOnly) return false
  view.dispatch(
    state.changeByRange(({ from, to }) => {
      const line = state.doc.lineAt(from)
      const before = state.sliceDoc(line.from, from)
      const outer = indentAt(state, from).slice(0, from - line.from)
      const opens = /[{[]\s*(\/\/.*)?$/.test(before)
      const inner = opens ? outer + INDENT : outer
      const closes = opens && /^\s*[}\]]/.test(state.sliceDoc(to, state.doc.lineAt(to).to))
      const insert = `${state.lineBreak}${inner}${closes ? state.lineBreak + outer : ''}`
      return {
        changes: { from, to, insert },
        range: EditorSelection.cursor(from + state.lineBreak.length + inner.length),
      }
    }),
    { userEvent: 'input', scrollIntoView: true },
  )
  return true
}

/** Moves the selected lines one step in or out; without a selection a step is put in at the cursor. */
function indent(by: 1 | -1): Command {
  return (view) => {
    const { state } = view
    const { main } = state.selection
    if (state.readOnly) return false
    if (by > 0 && main.empty) {
      view.dispatch(state.replaceSelection(INDENT), { userEvent: 'input', scrollIntoView: true })
      return true
    }
    const changes: ChangeSpec[] = []
    for (let number = state.doc.lineAt(main.from).number; number <= state.doc.lineAt(main.to).number; number += 1) {
      const line = state.doc.line(number)
      const spaces = /^ {0,2}|^\t/.exec(line.text)?.[0].length ?? 0
      if (by > 0 && line.length > 0) changes.push({ from: line.from, insert: INDENT })
      if (by < 0 && spaces > 0) changes.push({ from: line.from, to: line.from + spaces })
    }
    view.dispatch({ changes, userEvent: by > 0 ? 'input.indent' : 'delete.dedent' })
    return true
  }
}
export const indentMore = indent(1)
export const indentLess = indent(-1)
