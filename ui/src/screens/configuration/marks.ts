/** Findings in the text: underlined, with a sign beside the line and the words at the pointer. */
import { RangeSet, StateEffect, StateField, type EditorState, type Extension, type Range } from '@codemirror/state'
import { Decoration, EditorView, gutter, GutterMarker, hoverTooltip, type Command, type Tooltip } from '@codemirror/view'

export interface Mark {
  from: number
  to: number
  severity: 'error' | 'warning'
  message: string
}

class Sign extends GutterMarker {
  constructor(readonly severity: Mark['severity'], readonly message: string) {
    super()
  }
  override eq(other: Sign): boolean {
    return this.severity === other.severity && this.message === other.message
  }
  override toDOM(): HTMLElement {
    const sign = document.createElement('div')
    sign.className = `cm-sign cm-sign-${this.severity}`
    sign.title = this.message
    return sign
  }
}

const setMarks = StateEffect.define<readonly Mark[]>()
const marked = StateField.define<readonly Mark[]>({
  create: () => [],
  update(marks, transaction) {
    const set = transaction.effects.find((effect) => effect.is(setMarks))
    if (set) return set.value as readonly Mark[]
    if (!transaction.docChanged) return marks
    const { changes } = transaction
    return marks.map((mark) => ({ ...mark, from: changes.mapPos(mark.from, 1), to: Math.max(changes.mapPos(mark.to, -1), changes.mapPos(mark.from, 1)) }))
  },
  provide: (field) => EditorView.decorations.from(field, underlines),
})

function underlines(marks: readonly Mark[]): RangeSet<Decoration> {
  const underlined = marks.filter((mark) => mark.to > mark.from)
  return Decoration.set(underlined.map((mark) => Decoration.mark({ class: `cm-found cm-found-${mark.severity}` }).range(mark.from, mark.to)), true)
}

/** One sign a line: errors before warnings. */
function signs(state: EditorState): RangeSet<GutterMarker> {
  const lines = new Map<number, Mark>()
  for (const mark of state.field(marked)) {
    const line = state.doc.lineAt(Math.min(mark.from, state.doc.length)).from
    if (lines.get(line)?.severity !== 'error') lines.set(line, mark)
  }
  const found = [...lines].map(([line, mark]): Range<GutterMarker> => new Sign(mark.severity, mark.message).range(line))
  return RangeSet.of(found, true)
}

function words(view: EditorView, at: number): Tooltip | null {
  const here = view.state.field(marked).filter((mark) => mark.from <= at && at <= mark.to)
  const first = here[0]
  if (!first) return null
  return {
    pos: first.from,
    end: first.to,
    create: () => {
      const dom = document.createElement('div')
      for (const mark of here) {
        const line = dom.appendChild(document.createElement('p'))
        line.className = `cm-finding cm-finding-${mark.severity}`
        line.textContent = mark.message
      }
      return { dom }
    },
  }
}

export const marks: Extension = [
  marked,
  gutter({ class: 'cm-signs', markers: (view) => signs(view.state), initialSpacer: () => new Sign('warning', '') }),
  hoverTooltip(words),
]

export function mark(view: EditorView, found: readonly Mark[]): void {
  view.dispatch({ effects: setMarks.of(found) })
}

/** Selects the next finding behind the cursor, and the first one after the last. */
export const nextMark: Command = (view) => {
  const all = view.state.field(marked)
  const next = all.find((finding) => finding.from > view.state.selection.main.head) ?? all[0]
  if (!next) return false
  view.dispatch({ selection: { anchor: next.from, head: next.to }, effects: EditorView.scrollIntoView(next.from, { y: 'center' }) })
  return true
}
