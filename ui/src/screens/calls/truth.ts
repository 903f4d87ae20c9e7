/** What a record says of a call: how it ended, and the truth about whether it ran. */
import type { CallRecord } from '../../api/types'
import type { Tone } from '../../lib/status'

export type Status = 'ok' | 'error' | 'timeout' | 'cancelled' | 'unknown' | 'refused' | 'open'

/** Each status has a shape of its own. */
const LOOKS: Record<Status, { symbol: string; tone: Tone }> = {
  ok: { symbol: '●', tone: 'well' },
  error: { symbol: '✕', tone: 'bad' },
  timeout: { symbol: '◷', tone: 'wary' },
  cancelled: { symbol: '⊘', tone: 'off' },
  unknown: { symbol: '?', tone: 'wary' },
  refused: { symbol: '⊖', tone: 'wary' },
  open: { symbol: '↻', tone: 'busy' },
}

export function isStatus(status: string): status is Status {
  return status in LOOKS
}

export function lookOfStatus(status: string): { symbol: string; tone: Tone } {
  return isStatus(status) ? LOOKS[status] : { symbol: '?', tone: 'off' }
}

/** Whether a call ran; the words are in the texts (`callsTexts.truth`). */
export type Truth =
  | 'answered'
  | 'failed'
  | 'notSent'
  | 'refused'
  | 'unknown'
  | 'timeoutSent'
  | 'timeoutNotSent'
  | 'cancelledSent'
  | 'cancelledNotSent'
  | 'openWaiting'
  | 'openSent'

export function truthOf(call: Pick<CallRecord, 'state' | 'status'> & { error?: { kind: string } | null }): Truth {
  const { state, status } = call
  if (status === 'open') return state === 'not_sent' ? 'openWaiting' : 'openSent'
  if (status === 'refused') return 'refused'
  if (status === 'timeout') return state === 'not_sent' ? 'timeoutNotSent' : 'timeoutSent'
  if (status === 'cancelled') return state === 'not_sent' ? 'cancelledNotSent' : 'cancelledSent'
  if (state === 'not_sent') return 'notSent'
  if (status === 'unknown' || state === 'sent' || call.error?.kind === 'outcome_unknown') return 'unknown'
  return status === 'ok' ? 'answered' : 'failed'
}

/** Whether calling again is free of doubt: the call did not run, or is over with an answer. */
export function isDoubtful(truth: Truth): boolean {
  return truth === 'unknown' || truth === 'timeoutSent' || truth === 'cancelledSent'
}

/** Where the time of a call went, in milliseconds. */
export interface Split {
  queue: number
  upstream: number
  rest: number
  total: number
}

export function splitOf(call: { duration_ms?: number | null; queue_ms: number; upstream_ms: number }): Split {
  const known = call.queue_ms + call.upstream_ms
  const total = Math.max(call.duration_ms ?? known, known)
  return { queue: call.queue_ms, upstream: call.upstream_ms, rest: total - known, total }
}

export interface TimePart {
  name: 'queue' | 'upstream' | 'rest'
  ms: number
  /** The share of the whole time, from 0 to 1. */
  share: number
}

/** The parts of a call's time. The part of Mainstay itself is left out if it is negligible. */
export function partsOfTime(split: Split): TimePart[] {
  return (['queue', 'upstream', 'rest'] as const)
    .map((name) => ({ name, ms: split[name], share: split.total > 0 ? split[name] / split.total : 0 }))
    .filter((part) => part.ms >= 0.05 || part.name !== 'rest')
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`
}
