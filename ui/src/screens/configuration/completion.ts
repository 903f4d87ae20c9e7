/** Completion by the schema: a list at the cursor, opened by typing or by Ctrl-Space. */
import { Prec, StateEffect, StateField, type EditorState, type Extension } from '@codemirror/state'
import { EditorView, keymap, showTooltip, type Command, type Tooltip, type TooltipView } from '@codemirror/view'
import { complete, type Option, type Schema } from './schema'
import { treeOf } from './tree'
import { closed, INDENT, indentAt } from './typing'

export interface Sources {
  schema: () => Schema | undefined
  servers: () => readonly string[]
  words: Record<string, string>
  label: string
}

interface List {
  from: number
  to: number
  options: Option[]
  chosen: number
}

/** The sources of the one editor. */
let shownBy: Sources | undefined

const setList = StateEffect.define<List | null>()
const ID = 'completions'

/** While a person types, the list opens only for a word that has begun. Otherwise Enter would insert an option unasked. */
function listAt(state: EditorState, sources: Sources, isTyping: boolean): List | null {
  const { head, empty } = state.selection.main
  const schema = sources.schema()
  const found = schema && empty ? complete(schema, treeOf(state), head, sources.servers()) : undefined
  if (!found || (isTyping && found.from === head)) return null
  const typed = state.sliceDoc(found.from, head).replace(/^["']/, '').toLowerCase()
  const begins = (option: Option): boolean => option.label.toLowerCase().startsWith(typed)
  const options = found.options.filter((option) => option.label.toLowerCase().includes(typed))
  options.sort((a, b) => Number(begins(b)) - Number(begins(a)))
  // A complete value needs no list.
  const isDone = options.length === 1 && options[0]?.kind !== 'key' && options[0]?.label.toLowerCase() === typed
  return options.length > 0 && !isDone ? { from: found.from, to: found.to, options, chosen: 0 } : null
}

function open(view: EditorView): List | null {
  return view.state.field(listed, false) ?? null
}

function tooltip(list: List | null): Tooltip | null {
  return list && { pos: list.from, above: false, strictSide: false, create }
}

const listed = StateField.define<List | null>({
  create: () => null,
  update(list, transaction) {
    const set = transaction.effects.find((effect) => effect.is(setList))
    if (set) return set.value as List | null
    return transaction.docChanged || transaction.selection ? null : list
  },
  provide: (field) => [
    showTooltip.from(field, tooltip),
    EditorView.contentAttributes.from(field, (list): Record<string, string> =>
      list ? { 'aria-controls': ID, 'aria-haspopup': 'listbox', 'aria-activedescendant': `${ID}-${list.chosen}` } : { 'aria-haspopup': 'listbox' },
    ),
  ],
})

function create(view: EditorView): TooltipView {
  const dom = document.createElement('div')
  dom.className = 'cm-completions'
  const entries = dom.appendChild(document.createElement('ul'))
  entries.id = ID
  entries.role = 'listbox'
  entries.ariaLabel = shownBy?.label ?? ''
  const info = dom.appendChild(document.createElement('p'))
  // A click on the list must not move the focus out of the editor.
  dom.onmousedown = (event) => event.preventDefault()
  let drawn: Option[] | undefined

  function draw(): void {
    const list = open(view)
    if (!list) return
    if (drawn !== list.options) {
      drawn = list.options
      entries.replaceChildren(
        ...list.options.map((option, index) => {
          const entry = document.createElement('li')
          entry.id = `${ID}-${index}`
          entry.role = 'option'
          entry.textContent = option.label
          const detail = shownBy?.words[option.detail] ?? option.detail
          if (detail) entry.appendChild(document.createElement('span')).textContent = detail
          entry.onclick = () => accept(view, index)
          return entry
        }),
      )
    }
    ;[...entries.children].forEach((entry, index) => (entry.ariaSelected = String(index === list.chosen)))
    entries.children[list.chosen]?.scrollIntoView({ block: 'nearest' })
    info.textContent = list.options[list.chosen]?.info ?? ''
    info.hidden = !info.textContent
  }
  draw()
  return { dom, update: draw }
}

/** Puts an option in: its first place to be filled in is selected. */
function accept(view: EditorView, index = open(view)?.chosen ?? 0): boolean {
  const list = open(view)
  const option = list?.options[index]
  if (!list || !option) return false
  const { state } = view
  // Before another member the new one ends with a comma.
  const isFollowed = option.kind !== 'value' && option.insert.includes(':') && /^\s*["']/.test(state.sliceDoc(list.to, list.to + 200))
  const template = option.insert.replace(/\n/g, `\n${indentAt(state, list.from)}`).replace(/\t/g, INDENT)
  const place = /\$\{([^}]*)\}/.exec(template)
  // Behind each place a closing sign may be typed, which is there already.
  const ends: number[] = []
  let text = ''
  for (const [index, part] of template.split(/\$\{([^}]*)\}/).entries()) {
    text += part
    if (index % 2 > 0) ends.push(list.from + text.length)
  }
  const anchor = list.from + (place?.index ?? text.length)
  view.dispatch({
    changes: { from: list.from, to: list.to, insert: isFollowed ? `${text},` : text },
    selection: { anchor, head: anchor + (place?.[1]?.length ?? 0) },
    effects: closed.of(ends),
    userEvent: 'input.complete',
    scrollIntoView: true,
  })
  // Behind a key its values follow.
  if (option.kind === 'key' && !place?.[1]) queueMicrotask(() => ask(view))
  return true
}

function ask(view: EditorView, isTyping = false): boolean {
  const list = shownBy ? listAt(view.state, shownBy, isTyping) : null
  if (list || open(view)) view.dispatch({ effects: setList.of(list) })
  return true
}

function move(by: (list: List) => number): Command {
  return (view) => {
    const list = open(view)
    if (!list) return false
    const chosen = Math.min(Math.max(by(list), 0), list.options.length - 1)
    view.dispatch({ effects: setList.of({ ...list, chosen }) })
    return true
  }
}

const around = (list: List, step: number): number => (list.chosen + step + list.options.length) % list.options.length

function close(view: EditorView): boolean {
  if (!open(view)) return false
  view.dispatch({ effects: setList.of(null) })
  return true
}

export function completion(sources: Sources): Extension {
  shownBy = sources
  return [
    listed,
    Prec.highest(
      keymap.of([
        { key: 'Ctrl-Space', run: (view) => ask(view) },
        { key: 'ArrowDown', run: move((list) => around(list, 1)) },
        { key: 'ArrowUp', run: move((list) => around(list, -1)) },
        { key: 'PageDown', run: move((list) => list.chosen + 8) },
        { key: 'PageUp', run: move((list) => list.chosen - 8) },
        { key: 'Enter', run: (view) => accept(view) },
        { key: 'Escape', run: close },
      ]),
    ),
    EditorView.updateListener.of((update) => {
      const isTyped = update.transactions.some((transaction) => transaction.isUserEvent('input.type') || transaction.isUserEvent('delete'))
      if (!update.docChanged || !isTyped) return
      const { head } = update.state.selection.main
      const wasOpen = update.startState.field(listed) !== null
      const isWord = /["'\w$-]$/.test(update.state.sliceDoc(Math.max(head - 1, 0), head))
      if (wasOpen || (isWord && update.transactions.some((transaction) => transaction.isUserEvent('input.type')))) {
        // CodeMirror forbids a dispatch within an update.
        queueMicrotask(() => ask(update.view, true))
      }
    }),
    EditorView.domEventHandlers({ blur: (_, view) => void close(view) }),
  ]
}
