/** Why we believe what a row says: the words for when a server was last heard. */
import type { Server } from '../../api/types'
import { ago, span, time } from '../../lib/format'
import { texts } from '../../texts'

/** An answer that takes no longer is nothing to tell. */
const USUAL_MS = 2000

/** For a server that is connected; `undefined` where it was not heard yet. `answeredAt` is the last answered call. */
export function evidence(info: Server, answeredAt: number, now: number): string | undefined {
  const heard = Math.max(time(info.lastSuccessAt) ?? 0, answeredAt)
  if (heard === 0) return undefined
  const isAsked = info.askedAt != null && info.askedAt >= answeredAt && now - info.askedAt >= USUAL_MS
  if (isAsked || (info.consecutiveHealthFailures ?? 0) > 0) return texts.servers.silent(span(now - heard))
  return texts.servers.answered(ago(heard, now))
}

/** What a server that is down wrote on stderr at last. */
export function lastWords(info: Server): string | undefined {
  return info.connected ? undefined : info.stderr?.findLast((line) => line.trim() !== '')
}

/** The attempt and what comes next, such as "attempt 3 · next in 6 s". */
export function nextAttempt(info: Server, at: number | undefined, now: number): string | undefined {
  const parts: string[] = []
  if (info.reconnectAttempt && (at !== undefined || info.status === 'reconnecting')) parts.push(texts.servers.attempt(info.reconnectAttempt))
  if (at !== undefined) parts.push(at - now < 500 ? texts.servers.trying : texts.servers.next(span(Math.ceil((at - now) / 1000) * 1000)))
  return parts.length > 0 ? parts.join(' · ') : undefined
}
