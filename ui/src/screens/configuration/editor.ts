/**
 * The editor: CodeMirror's core with our own colours, completion and marks for what is wrong, which use the
 * tree of jsonc.ts. It is loaded when the screen is opened. It stands in a shadow root, where its styles are
 * constructed style sheets, which the content security policy lets in.
 */
import * as commands from '@codemirror/commands'
import { EditorState } from '@codemirror/state'
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, hoverTooltip, keymap, lineNumbers, type KeyBinding } from '@codemirror/view'
import { colours } from './colours'
import { completion } from './completion'
import { findDotted, offsetOf, placeAt } from './jsonc'
import { mark as setMarks, marks as markers, nextMark } from './marks'
import { describe, type Schema } from './schema'
import { theme } from './theme'
import { treeOf } from './tree'
import { indentLess, indentMore, newLine, pairs } from './typing'

export interface Mark {
  severity: 'error' | 'warning'
  /** From 1. */
  line: number | undefined
  column: number | undefined
  path: string
  message: string
}

export interface Options {
  host: HTMLElement
  text: string
  label: string
  /** The id of an element outside cannot be named from the shadow root: the words are repeated inside. */
  description: string
  /** Details of completions. */
  words: Record<string, string>
  /** The name of the list of completions. */
  completions: string
  schema: () => Schema | undefined
  servers: () => readonly string[]
  onchange: (text: string) => void
  onsave: () => void
}

export interface Editor {
  setText: (text: string) => void
  mark: (marks: readonly Mark[]) => void
  goTo: (mark: { line: number | undefined; column: number | undefined; path: string }) => void
  focus: () => void
  destroy: () => void
}

/** Keys beyond those of the browser: only what is drawn is there for it, and CodeMirror draws what is visible. */
const KEYS: readonly KeyBinding[] = [
  ...commands.historyKeymap,
  { key: 'ArrowUp', run: commands.cursorLineUp, shift: commands.selectLineUp },
  { key: 'ArrowDown', run: commands.cursorLineDown, shift: commands.selectLineDown },
  { key: 'PageUp', run: commands.cursorPageUp, shift: commands.selectPageUp },
  { key: 'PageDown', run: commands.cursorPageDown, shift: commands.selectPageDown },
  { key: 'Mod-Home', run: commands.cursorDocStart, shift: commands.selectDocStart },
  { key: 'Mod-End', run: commands.cursorDocEnd, shift: commands.selectDocEnd },
  { key: 'Home', run: commands.cursorLineBoundaryBackward, shift: commands.selectLineBoundaryBackward },
  { key: 'End', run: commands.cursorLineBoundaryForward, shift: commands.selectLineBoundaryForward },
  { mac: 'Cmd-ArrowUp', run: commands.cursorDocStart, shift: commands.selectDocStart },
  { mac: 'Cmd-ArrowDown', run: commands.cursorDocEnd, shift: commands.selectDocEnd },
  { key: 'Mod-a', run: commands.selectAll },
  { key: 'Alt-ArrowUp', run: commands.moveLineUp },
  { key: 'Alt-ArrowDown', run: commands.moveLineDown },
  { key: 'Shift-Mod-k', run: commands.deleteLine },
  { key: 'Mod-/', run: commands.toggleLineComment },
  { key: 'Enter', run: newLine },
  // Escape lets the next Tab move the focus on.
  { key: 'Tab', run: indentMore, shift: indentLess },
  { key: 'F8', run: nextMark },
]

export function open(options: Options): Editor {
  const shadow = options.host.shadowRoot ?? options.host.attachShadow({ mode: 'open' })
  let isSetting = false

  const hover = hoverTooltip((view, at) => {
    const schema = options.schema()
    const place = placeAt(treeOf(view.state), at)
    if (!schema || !place?.node) return null
    const path = place.kind === 'key' ? [...place.path, place.node.text] : place.path
    const words = describe(schema, path)
    if (!words) return null
    return {
      pos: place.from,
      end: place.to,
      create: () => {
        const dom = document.createElement('div')
        dom.className = 'cm-words'
        dom.textContent = words
        return { dom }
      },
    }
  })

  const description = document.createElement('p')
  description.id = 'description'
  description.hidden = true
  description.textContent = options.description
  const state = EditorState.create({
    doc: options.text,
    extensions: [
      lineNumbers(),
      highlightActiveLineGutter(),
      highlightActiveLine(),
      markers,
      commands.history(),
      drawSelection(),
      EditorState.tabSize.of(2),
      EditorState.languageData.of(() => [{ commentTokens: { line: '//' } }]),
      colours,
      pairs,
      completion({ schema: options.schema, servers: options.servers, words: options.words, label: options.completions }),
      hover,
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({
        'aria-label': options.label,
        'aria-describedby': 'description',
        tabindex: '0',
        spellcheck: 'false',
        autocorrect: 'off',
        autocapitalize: 'off',
      }),
      keymap.of([
        {
          key: 'Mod-s',
          run: () => {
            options.onsave()
            return true
          },
        },
        ...KEYS,
      ]),
      EditorView.updateListener.of((update) => {
        if (update.docChanged && !isSetting) options.onchange(update.state.doc.toString())
      }),
      theme,
    ],
  })
  const view = new EditorView({ state, parent: shadow, root: shadow })
  shadow.append(description)

  function rangeOf(mark: { line: number | undefined; column: number | undefined; path: string }): { from: number; to: number } {
    const text = view.state.doc.toString()
    if (mark.line !== undefined) {
      const from = offsetOf(text, mark.line, mark.column ?? 1)
      const word = /^("(?:[^"\\\n]|\\.)*"|[^\s,:[\]{}]+)/.exec(text.slice(from, from + 500))?.[0]
      return { from, to: Math.min(from + (word?.length ?? 1), text.length) }
    }
    return findDotted(treeOf(view.state).root, mark.path) ?? { from: 0, to: 0 }
  }

  return {
    setText(text) {
      if (text === view.state.doc.toString()) return
      isSetting = true
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } })
      isSetting = false
    },
    mark(marks) {
      const found = marks.map((mark) => ({ ...rangeOf(mark), severity: mark.severity, message: mark.message }))
      setMarks(view, found.sort((a, b) => a.from - b.from))
    },
    goTo(mark) {
      const { from, to } = rangeOf(mark)
      view.dispatch({ selection: { anchor: from, head: to }, effects: EditorView.scrollIntoView(from, { y: 'center' }) })
      view.focus()
    },
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  }
}
