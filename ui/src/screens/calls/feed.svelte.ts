/**
 * The calls that fit a filter, the newest first. New ones come by polling and are held back while somebody
 * reads; older ones are loaded by page.
 */
import { api, type Query } from '../../api/client'
import type { CallRecord, CallRecords, RecordGap } from '../../api/types'
import { clock } from '../../lib/clock.svelte'
import { firstLine, visible } from '../../lib/format'
import { callsTexts } from './texts'
import { isStatus, type Status } from './truth'

/** One row: what the table shows of a record, and no more, for there may be 100,000. */
export interface CallRow {
  id: string
  name: string
  server: string
  tool: string
  client: string
  door: string
  startedAt: number
  /** In milliseconds; -1 where it is not known. */
  duration: number
  queue: number
  upstream: number
  attempt: number
  state: string
  status: Status | 'other'
  /** The first line of the error; empty where there is none. */
  reason: string
}

/** A row is one line. */
const MAX_REASON = 200
const FIRST_PAGE = 100
const PAGE = 500
/** Records of one poll. Where more are new, older ones of them are left to the next loading. */
const POLL_PAGE = 200
/** A call is on record soon after it began: so far back a poll looks again. */
const OVERLAP_MS = 1000
/** The same where a text is searched for: a call fits by its error once it has ended. */
const TEXT_OVERLAP_MS = 10_000
/** Rows among which a poll looks for open calls, and how many of them are read again at once. */
const OPEN_AMONG = 500
const MAX_REREAD = 5
/** A list that is followed for days forgets its older rows, and loads them again where somebody scrolls. */
const MAX_FOLLOWED = 5000
const KEPT_FOLLOWED = 1000

const words = new Map<string, string>()
/** One copy of each name, however many records have it. */
function interned(text: string): string {
  const known = words.get(text)
  if (known !== undefined) return known
  if (words.size < 10_000) words.set(text, text)
  return text
}

/** Why a call failed: the first line of its error. */
export function reasonOf(call: CallRecord): string {
  return firstLine((call.error?.message ?? '').trim().slice(0, MAX_REASON))
}

/** Who called: the client, or the door of one without a name. */
export function callerOf(client: string | undefined, door: string): string {
  return visible(client || (callsTexts.doors[door] ?? door))
}

export function rowOf(call: CallRecord): CallRow {
  return {
    id: call.id,
    name: interned(call.name),
    server: interned(call.server ?? ''),
    tool: interned(call.tool),
    client: interned(call.client?.name ?? ''),
    door: interned(call.door),
    startedAt: Date.parse(call.started_at),
    duration: call.duration_ms ?? -1,
    queue: call.queue_ms,
    upstream: call.upstream_ms,
    attempt: call.attempt,
    state: interned(call.state),
    status: isStatus(call.status) ? call.status : 'other',
    reason: interned(reasonOf(call)),
  }
}

/** Ids are numbers of up to 18 digits, written without zeros in front. */
export function isNewer(one: string, other: string): boolean {
  return one.length === other.length ? one > other : one.length > other.length
}

export class CallFeed {
  rows = $state.raw<readonly CallRow[]>([])
  /** What came while the list was held. */
  held = $state.raw<readonly CallRow[]>([])
  state = $state<'loading' | 'ready' | 'failed'>('loading')
  /** Why the first page or the last poll failed. */
  error = $state.raw<unknown>(undefined)
  /** Why older calls could not be loaded; only a person tries that again. */
  moreError = $state.raw<unknown>(undefined)
  /** `before` of the next page. */
  next = $state<string | undefined>(undefined)
  /** Where a search ended before the page was full; the next page goes on from there. */
  searchedBackTo = $state<number | undefined>(undefined)
  /** Times of which calls are missing among the rows, the newest first. */
  gaps = $state.raw<readonly RecordGap[]>([])
  isLoadingMore = $state(false)
  /** How many calls came while the list was held. */
  heldCount = $state(0)

  /** Settled once the first page is there, or has failed. */
  readonly first: Promise<void>
  #query: () => Query
  /** How far back the filter reaches, where it is so long ago from now. */
  #reach: number | undefined
  #abort = new AbortController()
  #isPolling = false
  /** When the last reading of the newest calls began: a search must not begin at the last call that fits. */
  #lookedAt = 0
  /** Between what is held and the rows some calls were not read. */
  #hasGap = false
  /** Counts up, so that each of many open calls is read in its turn. */
  #turn = 0

  constructor(query: () => Query, reach: number | undefined) {
    this.#query = query
    this.#reach = reach
    this.first = this.load()
  }

  close(): void {
    this.#abort.abort()
  }

  async load(): Promise<void> {
    this.state = 'loading'
    try {
      const lookedAt = clock.exact()
      const page = await this.#read({ limit: FIRST_PAGE })
      this.rows = page.calls.map(rowOf)
      this.gaps = []
      this.#hold([])
      this.#goOnFrom(page)
      this.#addGaps(page)
      this.#lookedAt = lookedAt
      this.error = undefined
      this.state = 'ready'
    } catch (error) {
      this.#fail(error)
    }
  }

  async loadMore(isAgain = false): Promise<void> {
    if (this.isLoadingMore || this.next === undefined || (this.moreError !== undefined && !isAgain)) return
    this.isLoadingMore = true
    this.moreError = undefined
    try {
      const page = await this.#read({ limit: PAGE, before: this.next })
      this.rows = this.rows.concat(page.calls.map(rowOf))
      this.#goOnFrom(page)
      this.#addGaps(page)
    } catch (error) {
      if (!this.#abort.signal.aborted) this.moreError = error
    } finally {
      this.isLoadingMore = false
    }
  }

  /** Reads what is new, with a query that costs what it brings. */
  async poll(isHeld: boolean): Promise<void> {
    if (this.state !== 'ready' || this.#isPolling) return
    this.#isPolling = true
    try {
      const lookedAt = clock.exact()
      const newest = this.held[0] ?? this.rows[0]
      const query = this.#query()
      const since =
        query.text !== undefined
          ? Math.max(newest?.startedAt ?? 0, this.#lookedAt) - TEXT_OVERLAP_MS
          : newest && newest.startedAt - OVERLAP_MS
      const sinceOfFilter = typeof query.since === 'string' ? Date.parse(query.since) : -Infinity
      const page = await this.#read({ limit: POLL_PAGE, ...(since !== undefined && since > sinceOfFilter && { since: new Date(since).toISOString() }) })
      this.#merge(page.calls.map(rowOf), isHeld)
      this.#addGaps(page)
      this.#lookedAt = lookedAt
      await this.#rereadOpen()
      this.error = undefined
    } catch (error) {
      // The frame of the page says when the daemon is gone.
      if (!this.#abort.signal.aborted) this.error = error
    } finally {
      this.#isPolling = false
    }
  }

  /** Shows what was held back. */
  release(): void {
    if (this.held.length === 0) return
    if (this.#hasGap) {
      this.rows = this.held
      this.next = this.rows.at(-1)?.id
    } else this.rows = this.held.concat(this.rows)
    this.#hold([])
  }

  #goOnFrom(page: CallRecords): void {
    this.next = page.next ?? undefined
    this.searchedBackTo = page.searched_back_to ? Date.parse(page.searched_back_to) : undefined
  }

  /** One that is known may have grown. */
  #addGaps({ gaps = [] }: CallRecords): void {
    if (gaps.length === 0) return
    const all = new Map([...this.gaps, ...gaps].map((gap) => [gap.since, gap]))
    this.gaps = [...all.values()].sort((one, other) => Date.parse(other.since) - Date.parse(one.since))
  }

  #hold(rows: readonly CallRow[]): void {
    this.held = rows
    if (rows.length > 0) return
    this.heldCount = 0
    this.#hasGap = false
  }

  /** Open calls have ended meanwhile, or have been sent. */
  async #rereadOpen(): Promise<void> {
    const open = this.rows.slice(0, OPEN_AMONG).filter((row) => row.status === 'open')
    if (open.length === 0) return
    this.#turn = (this.#turn + MAX_REREAD) % Math.max(open.length, MAX_REREAD)
    const turn = open.slice(this.#turn, this.#turn + MAX_REREAD)
    for (const row of turn.length > 0 ? turn : open.slice(0, MAX_REREAD)) {
      // The page that begins at the call: as cheap as one row, and without its result.
      const since = new Date(row.startedAt).toISOString()
      const page = await this.#read({ limit: 1, since, before: String(BigInt(row.id) + 1n) })
      const found = page.calls[0]
      if (found?.id === row.id) this.rows = replaced(this.rows, new Map([[row.id, rowOf(found)]]))
      // It does not fit the filter any more.
      else this.rows = this.rows.filter((other) => other.id !== row.id)
    }
  }

  #merge(found: CallRow[], isHeld: boolean): void {
    const newest = this.held[0] ?? this.rows[0]
    const fresh = newest ? found.filter((row) => isNewer(row.id, newest.id)) : found
    const again = new Map(found.slice(fresh.length).map((row) => [row.id, row]))
    this.rows = this.#without(replaced(this.rows, again))
    if (newest && fresh.length >= POLL_PAGE) {
      this.#hasGap = true
      this.held = fresh
    } else if (fresh.length > 0) {
      this.held = fresh.concat(replaced(this.held, again))
      if (this.held.length > MAX_FOLLOWED) {
        this.#hasGap = true
        this.held = this.held.slice(0, KEPT_FOLLOWED)
      }
    } else this.held = replaced(this.held, again)
    this.heldCount += fresh.length
    if (isHeld) return
    this.release()
    if (this.rows.length > MAX_FOLLOWED) {
      this.rows = this.rows.slice(0, KEPT_FOLLOWED)
      this.next = this.rows.at(-1)?.id
    }
  }

  /** Rows that the span of the filter has left behind go from the end. */
  #without(rows: readonly CallRow[]): readonly CallRow[] {
    if (this.#reach === undefined) return rows
    const since = clock.exact() - this.#reach
    let end = rows.length
    while (end > 0 && (rows[end - 1]?.startedAt ?? since) < since) end -= 1
    return end === rows.length ? rows : rows.slice(0, end)
  }

  #read(query: Query): Promise<CallRecords> {
    return api.get<CallRecords>('/api/call-records', { ...this.#query(), count: 'false', ...query }, this.#abort.signal)
  }

  #fail(error: unknown): void {
    if (this.#abort.signal.aborted) return
    this.error = error
    this.state = 'failed'
  }
}

/** The same list where nothing changed, so that nothing is drawn again. */
function replaced(rows: readonly CallRow[], by: ReadonlyMap<string, CallRow>): readonly CallRow[] {
  let changed: CallRow[] | undefined
  for (let index = 0, left = by.size; index < rows.length && left > 0 && index < 2 * OPEN_AMONG; index += 1) {
    const row = rows[index]
    const other = row && by.get(row.id)
    if (!row || !other) continue
    left -= 1
    if (other.status === row.status && other.state === row.state && other.duration === row.duration) continue
    changed ??= [...rows]
    changed[index] = other
  }
  return changed ?? rows
}
