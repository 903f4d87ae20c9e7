/**
 * The editor: CodeMirror with completion, descriptions and marks for what is wrong. It is loaded when the
 * screen is opened. It stands in a shadow root, where its styles are constructed style sheets, which the
 * content security policy lets in.
 */
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, snippetCompletion, type CompletionContext, type CompletionResult } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands'
import { bracketMatching, codeFolding, foldGutter, foldKeymap, foldService, HighlightStyle, indentOnInput, indentService, indentUnit, StreamLanguage, syntaxHighlighting, type StringStream } from '@codemirror/language'
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from '@codemirror/lint'
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search'
import { EditorState, type Text } from '@codemirror/state'
import { Decoration, drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, hoverTooltip, keymap, lineNumbers, MatchDecorator, ViewPlugin, type DecorationSet, type ViewUpdate } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { findDotted, offsetOf, parse, placeAt, type Document } from './jsonc'
import { complete, describe, type Schema } from './schema'
import { theme } from './theme'

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
  words: Record<string, string>
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

/** The tree of the text, read once for each change and only when it is asked for. */
const trees = new WeakMap<Text, Document>()
function treeOf(state: EditorState): Document {
  let tree = trees.get(state.doc)
  if (!tree) {
    tree = parse(state.doc.toString())
    trees.set(state.doc, tree)
  }
  return tree
}

/** Colours JSON and its comments; a key is a string with a colon behind it. */
const json = StreamLanguage.define<{ inComment: boolean }>({
  name: 'json',
  startState: () => ({ inComment: false }),
  token(stream: StringStream, state): string | null {
    if (state.inComment || stream.match('/*')) {
      state.inComment = !stream.match(/^.*?\*\//)
      if (state.inComment) stream.skipToEnd()
      return 'comment'
    }
    if (stream.eatSpace()) return null
    if (stream.match('//')) {
      stream.skipToEnd()
      return 'comment'
    }
    if (stream.match(/^"(?:[^"\\]|\\.)*"?/) || stream.match(/^'(?:[^'\\]|\\.)*'?/)) {
      return stream.match(/^\s*:/, false) ? 'propertyName' : 'string'
    }
    if (stream.match(/^-?(?:\d|\.\d)[\w.+-]*/)) return 'number'
    if (stream.match(/^[\p{L}_$][\p{L}\d_$]*/u)) return stream.match(/^\s*:/, false) ? 'propertyName' : 'atom'
    stream.next()
    return 'punctuation'
  },
  languageData: { indentOnInput: /^\s*[}\]]$/, commentTokens: { line: '//', block: { open: '/*', close: '*/' } }, closeBrackets: { brackets: ['{', '[', '"'] } },
})

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: 'var(--accent)' },
  { tag: tags.string, color: 'var(--well)' },
  { tag: [tags.number, tags.atom], color: 'var(--busy)' },
  { tag: tags.comment, color: 'var(--ink-faint)', fontStyle: 'italic' },
  { tag: tags.punctuation, color: 'var(--ink-soft)' },
])

/** One step deeper behind an opening bracket, one step back before a closing one. */
const indents = indentService.of((context, at) => {
  const line = context.lineAt(at, -1)
  const before = context.state.sliceDoc(line.from, Math.min(at, line.from + line.text.length))
  const opens = /[{[]\s*(\/\/.*)?$/.test(before)
  const closes = /^\s*[}\]]/.test(context.textAfterPos(at))
  return Math.max(context.lineIndent(at, -1) + (opens ? context.unit : 0) - (closes ? context.unit : 0), 0)
})

/** An object or an array folds from the line where it begins. */
const folds = foldService.of((state, lineStart, lineEnd) => {
  const line = state.sliceDoc(lineStart, lineEnd)
  const opener = /[{[]\s*(\/\/.*)?$/.exec(line)
  if (!opener) return null
  const from = lineStart + opener.index
  let node = treeOf(state).root
  while (node && node.from !== from) {
    const inside = [...node.items, ...node.members.flatMap((it) => (it.value ? [it.value] : []))]
    node = inside.find((it) => it.from <= from && it.to > from)
  }
  return node && node.to > lineEnd ? { from: from + 1, to: node.to - 1 } : null
})

const secretMarks = new MatchDecorator({ regexp: /\$\{secret:[^}]*\}/g, decoration: Decoration.mark({ class: 'cm-secret' }) })
const secrets = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet
    constructor(view: EditorView) {
      this.decorations = secretMarks.createDeco(view)
    }
    update(update: ViewUpdate): void {
      this.decorations = secretMarks.updateDeco(update, this.decorations)
    }
  },
  { decorations: (plugin) => plugin.decorations },
)

export function open(options: Options): Editor {
  const shadow = options.host.shadowRoot ?? options.host.attachShadow({ mode: 'open' })
  let isSetting = false

  function completions(context: CompletionContext): CompletionResult | null {
    const schema = options.schema()
    if (!schema) return null
    if (!context.explicit && !context.matchBefore(/["'\w$-]$/)) return null
    const found = complete(schema, treeOf(context.state), context.pos, options.servers())
    if (!found) return null
    // Before another member the new one ends with a comma.
    const isFollowed = /^\s*["']/.test(context.state.sliceDoc(found.to, found.to + 200))
    const shown = found.options.map((option) =>
      snippetCompletion(option.insert + (isFollowed && option.kind !== 'value' && option.insert.includes(':') ? ',' : ''), {
        label: option.label,
        detail: options.words[option.detail] ?? option.detail,
        type: option.kind === 'key' ? 'property' : option.kind === 'value' ? 'enum' : 'text',
        ...(option.info && { info: option.info }),
        boost: option.kind === 'snippet' ? -1 : 0,
      }),
    )
    const typed = context.state.sliceDoc(found.from, context.pos).replace(/^["']/, '').toLowerCase()
    const fitting = shown.filter((option) => option.label.toLowerCase().includes(typed))
    return fitting.length > 0 ? { from: found.from, to: found.to, options: fitting, filter: false } : null
  }

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
      lintGutter(),
      codeFolding({ placeholderText: '…' }),
      foldGutter(),
      folds,
      indents,
      indentOnInput(),
      history(),
      drawSelection(),
      indentUnit.of('  '),
      EditorState.tabSize.of(2),
      json,
      syntaxHighlighting(colours),
      bracketMatching(),
      closeBrackets(),
      secrets,
      search({ top: true }),
      highlightSelectionMatches(),
      autocompletion({ override: [completions], icons: false, activateOnTyping: true }),
      hover,
      EditorView.lineWrapping,
      EditorState.phrases.of(options.words),
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
        ...closeBracketsKeymap,
        ...completionKeymap,
        ...searchKeymap,
        ...lintKeymap,
        ...historyKeymap,
        ...foldKeymap,
        ...defaultKeymap,
        // Escape lets the next Tab move the focus on.
        indentWithTab,
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
      const diagnostics = marks.map((mark): Diagnostic => ({ ...rangeOf(mark), severity: mark.severity, message: mark.message }))
      view.dispatch(setDiagnostics(view.state, diagnostics.sort((a, b) => a.from - b.from)))
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
