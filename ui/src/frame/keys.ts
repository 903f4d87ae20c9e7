/** The keys of the frame: a table with a row for each, from which the help is drawn. */
import { screens } from '../lib/navigation'
import { href, router } from '../lib/router.svelte'
import { frameTexts } from './texts'

/** What the keys act on. */
export interface KeyTargets {
  /** The element that the screen is in. */
  main: HTMLElement | undefined
  togglePalette: () => void
  openHelp: () => void
}

interface KeyRow {
  /** The keys as the help writes them. */
  label: string
  /** What the help says of them. */
  text: string
  /** Values of `KeyboardEvent.key`. None where the focused element answers to the key. */
  keys?: readonly string[]
  /** `alone` is the default. `control` works in fields, too. `leader` follows `g`. */
  when?: 'alone' | 'control' | 'leader'
  run?: (targets: KeyTargets, key: string) => void
}

/** What a key event says, without its element. */
type KeyPress = Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey'>

const LEADER = 'g'
/** How long the leader waits for the second key, in milliseconds. */
const LEADER_MS = 1500
const FIELDS = 'input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable], .cm-editor, dialog'

export function keyRows(): readonly KeyRow[] {
  return [
    { label: 'Ctrl K', text: frameTexts.search, keys: ['k'], when: 'control', run: (targets) => targets.togglePalette() },
    { label: '?', text: frameTexts.keys.help, keys: ['?'], run: (targets) => targets.openHelp() },
    ...screens().map(
      (screen): KeyRow => ({
        label: `${LEADER} ${screen.key}`,
        text: screen.title,
        keys: [screen.key],
        when: 'leader',
        run: () => router.go(href([screen.name])),
      }),
    ),
    { label: '/', text: frameTexts.keys.filter, keys: ['/'], run: (targets) => focusFilter(targets.main) },
    { label: 'j k', text: frameTexts.keys.row, keys: ['j', 'k'], run: (targets, key) => focusRow(targets.main, key === 'j' ? 1 : -1) },
    { label: 'Enter', text: frameTexts.keys.open },
    { label: 'Esc', text: frameTexts.keys.close },
  ]
}

/** The row that a key press runs. In fields only keys with control work. */
export function rowFor(press: KeyPress, isInField: boolean, isAfterLeader: boolean): KeyRow | undefined {
  const has = (when: KeyRow['when'], key: string): KeyRow | undefined =>
    keyRows().find((row) => (row.when ?? 'alone') === when && row.keys?.includes(key))
  if (press.ctrlKey || press.metaKey) return has('control', press.key.toLowerCase())
  if (isInField || press.altKey) return undefined
  return (isAfterLeader ? has('leader', press.key) : undefined) ?? has('alone', press.key)
}

/** Returns a handler for `keydown` on the window. */
export function keyHandler(targets: KeyTargets): (event: KeyboardEvent) => void {
  let leaderAt = -LEADER_MS
  return (event) => {
    const element = event.target as HTMLElement
    // In a shadow root, that of the editor, the first element of the path is not the target.
    const isInField = element.closest(FIELDS) !== null || event.composedPath()[0] !== element
    const isPlain = !isInField && !event.ctrlKey && !event.metaKey && !event.altKey
    const isAfterLeader = event.timeStamp - leaderAt < LEADER_MS
    const row = rowFor(event, isInField, isAfterLeader)
    if (isPlain) leaderAt = event.key === LEADER && row === undefined ? event.timeStamp : -LEADER_MS
    if (!row?.run) return
    event.preventDefault()
    row.run(targets, event.key)
  }
}

function focusFilter(main: HTMLElement | undefined): void {
  const filter = main?.querySelector<HTMLInputElement>('[data-filter]')
  filter?.focus()
  filter?.select()
}

/** Moves the focus among rows, whose focusable elements have `data-row`. */
function focusRow(main: HTMLElement | undefined, by: 1 | -1): void {
  const rows = [...(main?.querySelectorAll<HTMLElement>('[data-row]') ?? [])]
  const at = rows.findIndex((row) => row === document.activeElement || row.contains(document.activeElement))
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)]
  next?.focus()
  next?.scrollIntoView({ block: 'nearest' })
}
