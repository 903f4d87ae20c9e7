/**
 * All servers, as the page knows them. One event stream tells what changes; of a server that an event is
 * about, its state is read again. Figures are read while a screen that shows them is open and visible.
 */
import { SvelteMap } from 'svelte/reactivity'
import { api, ApiError, path, whenReached } from '../api/client'
import type { Event, Figures, Operated, Server, ServerDetails, ServerFigures, ServerRequests, Servers } from '../api/types'
import { texts } from '../texts'
import { lookOf, type Look } from './status'
import { toasts } from './toasts.svelte'

/** Types of events of `GET /api/events`, beside `snapshot` and `missed`. */
const EVENT_TYPES = [
  'server_added',
  'server_removed',
  'server_connected',
  'server_disconnected',
  'server_reconnecting',
  'server_reconnected',
  'server_health_degraded',
  'server_health_restored',
  'server_failed',
  'call_refused',
  'call_allowed',
  'tools_changed',
  'config_reloaded',
  'config_rejected',
  'server_request_asked',
  'server_request_ended',
] as const

/** Events that the page remembers for its screens. */
const MAX_EVENTS = 500
/** How often what no event tells of is read: evidence of health, starts under way. */
const REFRESH_MS = 15_000
const FIGURES_MS = 3_000
/** Points of a sparkline: five minutes at one every three seconds. */
const HISTORY = 100
/** More servers than this at once are read as a whole. */
const MAX_SINGLE_READS = 20

export type Operation = 'start' | 'stop' | 'restart' | 'reconnect' | 'enable' | 'disable'

/** One server. Its members change alone, so that only its row is drawn again. */
export class Row {
  readonly name: string
  info = $state.raw<Server>({} as Server)
  figures = $state.raw<ServerFigures | undefined>(undefined)
  /** When `info` was read, for countdowns: `nextRetryMs` counts from there. */
  readAt = $state(0)
  /** When calls were last seen to be answered: `lastSuccessAt` follows a busy server with a delay. */
  answeredAt = $state(0)
  /** What a person asked for here and was not answered yet. */
  busy = $state<Operation | 'remove' | 'approve' | undefined>(undefined)
  /** Why the last thing that was asked for failed. */
  failure = $state<string | undefined>(undefined)
  /** Calls a second, the newest last. */
  rates = $state.raw<number[]>([])
  /** The 95th percentile in milliseconds beside them. */
  p95s = $state.raw<number[]>([])
  /** Derived once for each change, and read by many places. */
  look: Look = $derived(lookOf(this.info))

  constructor(info: Server) {
    this.name = info.name
    this.take(info)
  }

  take(info: Server): void {
    this.info = info
    this.readAt = Date.now()
  }

  measure(figures: ServerFigures): void {
    const before = this.figures
    if (before && figures.calls - figures.errors > before.calls - before.errors) this.answeredAt = Date.now()
    this.figures = figures
    this.rates = [...this.rates, figures.recent.callsPerSecond].slice(-HISTORY)
    this.p95s = [...this.p95s, figures.recent.p95Ms ?? 0].slice(-HISTORY)
  }

  /** When the next attempt is due, in milliseconds since 1970. */
  get nextAttemptAt(): number | undefined {
    return this.info.nextRetryMs == null ? undefined : this.readAt + this.info.nextRetryMs
  }
}

class Fleet {
  /** `waiting` until the first snapshot; `lost` while the daemon does not answer. */
  connection = $state<'waiting' | 'live' | 'lost'>('waiting')
  /** When the daemon was last heard. */
  heardAt = $state(0)
  /** When the page tries again. */
  retryAt = $state(0)
  rows = new SvelteMap<string, Row>()
  /** In the order of the configuration. */
  names = $state.raw<string[]>([])
  list: Row[] = $derived(this.names.map((name) => this.rows.get(name)).filter((row) => row !== undefined))
  warnings = $state.raw<string[]>([])
  /** The newest last. */
  events = $state.raw<Event[]>([])
  /** What servers ask and no client could be asked. */
  requestCount = $state(0)
  /** Counts up with each event, for screens that read something again. */
  listsVersion = $state(0)

  #source: EventSource | undefined
  #lastEvent = ''
  #retryMs = 500
  #dirty = new Set<string>()
  #pendingEvents: Event[] = []
  #frame = 0
  #watchers = 0
  #timers: ReturnType<typeof setInterval>[] = []

  /** Begins to follow the daemon; the page does this once it is signed in. */
  start(): void {
    if (this.#timers.length > 0) return
    whenReached((reached) => {
      if (reached) this.heardAt = Date.now()
    })
    this.#open()
    this.#timers = [
      setInterval(() => this.#whenVisible(() => void this.refresh()), REFRESH_MS),
      setInterval(() => this.#whenVisible(() => void this.#readFigures()), FIGURES_MS),
      setInterval(() => this.#whenVisible(() => this.#lookAtCountdowns()), 1000),
    ]
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden && this.connection === 'live') void this.refresh()
    })
    void this.refreshRequests()
  }

  stop(): void {
    for (const timer of this.#timers) clearInterval(timer)
    this.#timers = []
    this.#source?.close()
    this.#source = undefined
  }

  /** Reads figures as long as the returned function was not called. */
  watchFigures(): () => void {
    this.#watchers += 1
    void this.#readFigures()
    return () => {
      this.#watchers -= 1
    }
  }

  /** Reads all servers. */
  async refresh(): Promise<void> {
    try {
      this.#takeAll(await api.get<Servers>('/api/servers'))
    } catch {
      // The event stream tells when the daemon is gone, and reads all when it is back.
    }
  }

  async refreshRequests(): Promise<void> {
    try {
      this.requestCount = (await api.get<ServerRequests>('/api/server-requests')).requests.length
    } catch {
      // As above.
    }
  }

  /** Reads one server; one that is gone is taken out. */
  async refreshOne(name: string): Promise<void> {
    try {
      this.#take((await api.get<ServerDetails>(path`/api/servers/${name}`)).server)
    } catch (error) {
      if (error instanceof ApiError && error.code === 'server_not_found') this.#forget(name)
    }
  }

  /**
   * Asks for an operation and shows what it does meanwhile. Answers whether it succeeded.
   * With `quiet` nothing pops up: the caller says how many went well.
   */
  async operate(name: string, operation: Operation, persist = false, quiet = false): Promise<boolean> {
    const row = this.rows.get(name)
    if (!row || row.busy) return false
    row.busy = operation
    row.failure = undefined
    try {
      const body = persist ? { persist: true } : undefined
      const done = await api.post<Operated>(path`/api/servers/${name}/${operation}`, body)
      if (done.error) {
        row.failure = done.error
        if (!quiet) toasts.show(texts.toasts.failed(done.error), 'bad')
        return false
      }
      if (!quiet) toasts.show(texts.toasts.done(name, operation), 'well')
      return true
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      row.failure = message
      if (!quiet) toasts.show(operation === 'start' ? texts.toasts.failed(message) : texts.toasts.error(message), 'bad')
      return false
    } finally {
      row.busy = undefined
      await this.refreshOne(name)
    }
  }

  #open(): void {
    const query = this.#lastEvent ? `?after=${this.#lastEvent}` : ''
    const source = new EventSource(`/api/events${query}`)
    this.#source = source
    const back = (): void => {
      if (this.connection !== 'live') {
        if (this.connection === 'lost') void this.refreshRequests()
        this.connection = 'live'
        // What changed while nobody listened is not told again after a restart.
        if (query) void this.refresh()
      }
      this.#retryMs = 500
      this.heardAt = Date.now()
    }
    source.addEventListener('open', back)
    source.addEventListener('snapshot', (message) => {
      back()
      this.#remember(message)
      this.#takeAll(JSON.parse(message.data) as Servers)
    })
    source.addEventListener('missed', (message) => this.#remember(message))
    for (const type of EVENT_TYPES) {
      source.addEventListener(type, (message) => {
        this.#remember(message)
        this.#hear(JSON.parse(message.data) as Event)
      })
    }
    source.addEventListener('error', () => {
      // The browser's own retry does not tell an ended session from a daemon that is gone.
      source.close()
      if (this.#source !== source) return
      this.#source = undefined
      this.connection = 'lost'
      this.retryAt = Date.now() + this.#retryMs
      setTimeout(() => void this.#again(), this.#retryMs)
      this.#retryMs = Math.min(this.#retryMs * 2, 5000)
    })
  }

  /** A place that the daemon no longer knows is refused; then everything is read anew. */
  async #again(): Promise<void> {
    if (this.#timers.length === 0 || this.#source) return
    try {
      await api.get('/api/session')
      this.#open()
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) return
      this.retryAt = Date.now() + this.#retryMs
      setTimeout(() => void this.#again(), this.#retryMs)
      this.#retryMs = Math.min(this.#retryMs * 2, 5000)
    }
  }

  #remember(message: MessageEvent): void {
    if (message.lastEventId) this.#lastEvent = message.lastEventId
    this.heardAt = Date.now()
  }

  /** Events are folded once a frame, however many come. */
  #hear(event: Event): void {
    this.#pendingEvents.push(event)
    if (event.server) this.#dirty.add(event.server)
    this.#frame ||= setTimeout(() => this.#fold(), 50) as unknown as number
  }

  #fold(): void {
    this.#frame = 0
    const events = this.#pendingEvents
    this.#pendingEvents = []
    this.events = [...this.events, ...events].slice(-MAX_EVENTS)
    const types = new Set(events.map((event) => event.type))
    if (types.has('tools_changed') || types.has('server_connected') || types.has('server_removed')) this.listsVersion += 1
    if (types.has('server_request_asked') || types.has('server_request_ended')) void this.refreshRequests()
    for (const event of events) if (event.type === 'server_removed' && event.server) this.#forget(event.server)
    const dirty = [...this.#dirty]
    this.#dirty.clear()
    const isWhole = types.has('config_reloaded') || types.has('server_added') || dirty.length > MAX_SINGLE_READS
    if (isWhole) void this.refresh()
    // Of a server that is being deleted nothing is asked any more.
    else for (const name of dirty) if (this.rows.has(name) && this.rows.get(name)?.busy !== 'remove') void this.refreshOne(name)
  }

  #takeAll(answer: Servers): void {
    const names = answer.servers.map((server) => server.name)
    const present = new Set(names)
    for (const name of this.rows.keys()) if (!present.has(name)) this.rows.delete(name)
    for (const server of answer.servers) this.#take(server)
    if (names.length !== this.names.length || names.some((name, index) => name !== this.names[index])) this.names = names
    this.warnings = answer.warnings ?? []
  }

  #take(server: Server): void {
    const row = this.rows.get(server.name)
    if (row) row.take(server)
    else this.rows.set(server.name, new Row(server))
  }

  #forget(name: string): void {
    this.rows.delete(name)
    this.names = this.names.filter((known) => known !== name)
  }

  async #readFigures(): Promise<void> {
    if (this.#watchers === 0 || this.connection !== 'live') return
    try {
      const { servers } = await api.get<Figures>('/api/figures')
      for (const figures of servers) this.rows.get(figures.name)?.measure(figures)
    } catch {
      // The next reading may succeed.
    }
  }

  /** An attempt that is due has begun: no event tells of it before it ends. */
  #lookAtCountdowns(): void {
    if (this.connection !== 'live') return
    const now = Date.now()
    const due = this.list.filter((row) => {
      const at = row.nextAttemptAt
      return (at !== undefined && at < now) || (row.look.word === 'starting' && now - row.readAt > 2000)
    })
    if (due.length > MAX_SINGLE_READS) void this.refresh()
    else for (const row of due) void this.refreshOne(row.name)
  }

  #whenVisible(then: () => void): void {
    if (!document.hidden && this.connection === 'live') then()
  }
}

export const fleet = new Fleet()
