/** Why we believe what a row says: the words for when a server was last heard. */
import type { Server } from '../../api/types'
import { ago, span, time } from '../../lib/format'
import { uncoloured } from '../../lib/visible'
import type { Row } from '../../lib/row.svelte'
import { serversTexts } from './texts'

/** For a server that is connected; `undefined` where it was not heard yet. With `isLost` nobody knows what it does. */
export function evidence({ info, answeredAt, isAsked }: Pick<Row, 'info' | 'answeredAt' | 'isAsked'>, now: number, isLost = false): string | undefined {
  const lastAnswerAt = Math.max(time(info.lastSuccessAt) ?? 0, answeredAt)
  if (lastAnswerAt === 0) return undefined
  if (!isLost && (isAsked || (info.consecutiveHealthFailures ?? 0) > 0)) return serversTexts.silent(span(now - lastAnswerAt))
  return serversTexts.answered(ago(lastAnswerAt, now))
}

/** What a server that is down wrote on stderr at last. */
export function lastWords(info: Server): string | undefined {
  return info.connected ? undefined : info.stderr?.map(uncoloured).findLast((line) => line.trim() !== '')
}

/** The attempt and what comes next, such as "attempt 3 · next in 6 s". */
export function nextAttempt(info: Server, at: number | undefined, now: number): string | undefined {
  const parts: string[] = []
  if (info.reconnectAttempt && (at !== undefined || info.status === 'reconnecting')) parts.push(serversTexts.attempt(info.reconnectAttempt))
  if (at !== undefined) parts.push(at - now < 500 ? serversTexts.trying : serversTexts.next(span(Math.ceil((at - now) / 1000) * 1000)))
  return parts.length > 0 ? parts.join(' · ') : undefined
}
