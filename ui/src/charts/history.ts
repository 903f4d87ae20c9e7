/** The history of servers as lanes of a timeline. */
import type { History, ServerHistory, Transition } from '../api/types'
import { look, type StateWord } from '../lib/status'
import { overviewTexts } from '../screens/overview/texts'

/** One state from a time to another, in milliseconds since 1970. */
export interface StateSpan {
  from: number
  to: number
  word: StateWord
  transition: Transition
}

/** What the pointer or the keyboard is at in a lane. */
export interface Choice {
  name: string
  place: StateSpan | Gap
  /** The lane's, beside which the card stands. */
  element: Element
  /** The time at which the card stands. */
  at: number
}

export interface Lane {
  name: string
  /** In the order of time. Where there is none, nothing is known. */
  spans: StateSpan[]
}

/** Whether a server was down or degraded, or is on its way back. A start alone is none. */
export function hadTrouble({ spans }: Lane): boolean {
  return spans.some(({ word }, index) => {
    const { group } = look(word)
    return group === 'needs' || group === 'degraded' || word === 'reconnecting' || (word === 'starting' && index > 0 && spans[index - 1]?.word === 'connected')
  })
}

export interface Gap {
  from: number
  to: number
}

const WORDS: Partial<Record<string, StateWord>> = {
  pending: 'pending',
  connected: 'connected',
  connecting: 'starting',
  reconnecting: 'reconnecting',
  stopping: 'stopping',
  disconnected: 'stopped',
  failed: 'failed',
  error: 'error',
  crashed: 'crashed',
}

function wordOf(transition: Transition): StateWord | undefined {
  const word = WORDS[transition.status]
  if (word === 'stopped' && transition.reason === 'disabled') return 'disabled'
  if (word === 'connected' && transition.degraded) return 'degraded'
  if (word === 'error' && transition.unauthorized) return 'unauthorized'
  return word
}

/** When Mainstay did not run. */
export function gapsOf(daemon: History['daemon'], since: number, until: number): Gap[] {
  const gaps: Gap[] = []
  let goneAt: number | undefined
  daemon.forEach((mark, index) => {
    const at = Date.parse(mark.at)
    if (mark.event !== 'started') {
      goneAt ??= at
      return
    }
    // What came before the first start that is known is not known either: it did not run.
    if (goneAt !== undefined) gaps.push({ from: goneAt, to: at })
    else if (index === 0) gaps.push({ from: -Infinity, to: at })
    goneAt = undefined
  })
  if (goneAt !== undefined) gaps.push({ from: goneAt, to: Infinity })
  return gaps
    .map((gap) => ({ from: Math.max(gap.from, since), to: Math.min(gap.to, until) }))
    .filter((gap) => gap.from < gap.to)
}

export function laneOf(history: ServerHistory, gaps: readonly Gap[], since: number, until: number): Lane {
  const spans: StateSpan[] = []
  history.transitions.forEach((transition, index) => {
    const word = wordOf(transition)
    if (!word) return
    const next = history.transitions[index + 1]
    // Of transitions that were left out nothing is known.
    if (index === 0 && history.truncated && Date.parse(transition.at) < since) return
    let from = Math.max(Date.parse(transition.at), since)
    let to = Math.min(next ? Date.parse(next.at) : until, until)
    for (const gap of gaps) {
      if (gap.from <= from && from < gap.to) from = gap.to
      if (from < gap.from && gap.from < to) to = gap.from
    }
    if (from < to) spans.push({ from, to, word, transition })
  })
  return { name: history.server, spans }
}

/** Lanes in this order of names first, then the others. */
export function lanesOf(history: History, order: readonly string[], since: number, until: number): { lanes: Lane[]; gaps: Gap[] } {
  const gaps = gapsOf(history.daemon, since, until)
  const lanes = history.servers.map((server) => laneOf(server, gaps, since, until)).filter((lane) => lane.spans.length > 0)
  const place = new Map(order.map((name, index) => [name, index]))
  const at = (lane: Lane): number => place.get(lane.name) ?? order.length
  return { lanes: lanes.sort((one, other) => at(one) - at(other)), gaps }
}

/** What a lane tells of, in the order of time: states, and when Mainstay did not run. */
export function placesOf(lane: Lane, gaps: readonly Gap[]): (StateSpan | Gap)[] {
  return [...lane.spans, ...gaps].sort((one, other) => one.from - other.from)
}

/** Why a state is; what the daemon leaves unsaid as well. */
export function reasonOf(span: StateSpan): string {
  if (span.word === 'disabled') return ''
  return span.transition.reason ?? (span.word === 'stopped' ? overviewTexts.stoppedByHand : '')
}

/** The index of the span at a time; -1 where there is none. */
export function spanAt(spans: readonly Gap[], at: number): number {
  let [low, high] = [0, spans.length - 1]
  while (low <= high) {
    const middle = (low + high) >> 1
    const span = spans[middle]
    if (!span) return -1
    if (at < span.from) high = middle - 1
    else if (at >= span.to) low = middle + 1
    else return middle
  }
  return -1
}

/** What is at a time; or else beside it what is narrower than a pointer, and not just well. */
export function pointedAt(places: readonly (StateSpan | Gap)[], at: number, near: number): StateSpan | Gap | undefined {
  const distance = (place: Gap): number => Math.abs((place.from + place.to) / 2 - at)
  const narrow = places.filter(
    (place) =>
      place.from <= at + near && place.to >= at - near && place.to - place.from <= 2 * near && !('word' in place && look(place.word).tone === 'well'),
  )
  return narrow.sort((one, other) => distance(one) - distance(other))[0] ?? places[spanAt(places, at)]
}
