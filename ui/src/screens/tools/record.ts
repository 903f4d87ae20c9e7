/** The record of a call that was made here, and whether a call without one may have run. */
import { ApiError, api } from '../../api/client'
import type { CallRecord, CallRecords } from '../../api/types'

/** When the record is looked for after a call: a call that was cancelled may end a little later. */
const LOOKS_MS = [0, 250, 500, 1000, 2000]
/** The page knows the daemon's clock to about half a second, and a busy daemon opens a record a little late. */
const SLACK_MS = 5000

export interface Trace {
  id: string
  /** W3C Trace Context. */
  traceparent: string
}

/** A trace of its own for one call: its record has the id. */
export function newTrace(): Trace {
  const digits = (bytes: number): string => Array.from(crypto.getRandomValues(new Uint8Array(bytes)), (byte) => byte.toString(16).padStart(2, '0')).join('')
  const id = digits(16)
  return { id, traceparent: `00-${id}-${digits(8)}-01` }
}

/**
 * The record of the call of this trace, once it has ended. `undefined` where there is none, where records cannot
 * be read, or once `isOver` says that nobody asks for it any more.
 */
export async function findRecord(trace: Trace, startedAt: number, isOver: () => boolean): Promise<CallRecord | undefined> {
  const at = (ms: number): string => new Date(ms).toISOString()
  const query = { door: 'rest', trace_id: trace.id, since: at(startedAt - SLACK_MS), until: at(startedAt + SLACK_MS), limit: 1, count: 'false' }
  let found: CallRecord | undefined
  for (const wait of LOOKS_MS) {
    await new Promise((resolve) => setTimeout(resolve, wait))
    if (isOver()) return undefined
    try {
      found = (await api.get<CallRecords>('/api/call-records', query)).calls[0]
    } catch {
      return undefined
    }
    if (found && found.status !== 'open') break
  }
  return isOver() ? undefined : found
}

const UNSURE = new Set(['outcome_unknown', 'message_too_large', 'cancelled'])

/** Whether a call that failed so may have run. Its record tells; this is for calls without one. */
export function isUnsure(error: unknown): boolean {
  // Any other error is of the connection to Mainstay, which goes on with the call for a moment.
  return !(error instanceof ApiError) || error.status === 504 || UNSURE.has(error.code)
}
