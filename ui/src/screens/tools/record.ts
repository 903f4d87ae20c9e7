/** Finds the record of a call that was made here. The API does not tell its id, so it is found by what was called, and when. */
import { ApiError } from '../../api/client'
import type { CallRecord } from '../../api/types'

/** What a call is about, as records name it: the server's own name of a tool or prompt, or a URI. */
export interface Subject {
  server: string
  tool: string
}

/** The page knows the daemon's clock to about half a second, and a busy daemon opens a record a little late. */
export const SLACK_MS = 1500

export interface Made extends Subject {
  startedAt: number
  /** A call that was cancelled may have been answered in that moment; one that failed was not. */
  isCancelled: boolean
  /** The record of the call before this one. */
  before: string | undefined
}

/** `undefined` where no record fits, or several do: another caller may have called the same tool in that moment. */
export function recordOf(records: readonly CallRecord[], { server, tool, startedAt, isCancelled, before }: Made): CallRecord | undefined {
  const fitting = records.filter(
    (it) =>
      it.door === 'rest' &&
      it.tool === tool &&
      (it.server ?? server) === server &&
      Math.abs(Date.parse(it.started_at) - startedAt) <= SLACK_MS &&
      (isCancelled || it.status !== 'ok') &&
      (before === undefined || BigInt(it.id) > BigInt(before)),
  )
  return fitting.length === 1 ? fitting[0] : undefined
}

const UNSURE = new Set(['outcome_unknown', 'message_too_large', 'cancelled'])

/** Whether a call that failed so may have run. Its record tells; this is for calls without one. */
export function isUnsure(error: unknown): boolean {
  // Any other error is of the connection to Mainstay, which goes on with the call for a moment.
  return !(error instanceof ApiError) || error.status === 504 || UNSURE.has(error.code)
}
