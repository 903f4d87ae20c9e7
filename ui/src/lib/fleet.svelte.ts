/**
 * All servers, as the page knows them. One event stream tells what changes; of a server that an event is
 * about, its state is read again. Figures are read while a screen that shows them is open and visible.
 */
import { untrack } from 'svelte'
import { SvelteMap } from 'svelte/reactivity'
import { api, ApiError, messageOf, path, whenReached } from '../api/client'
import type { Event, Figures, Operated, Server, ServerDetails, ServerFigures, ServerRequest, ServerRequests, Servers } from '../api/types'
import { serversTexts } from '../screens/servers/texts'
import { texts } from '../texts'
import { clock } from './clock.svelte'
import { changeEntry } from './entry'
import { Feed } from './feed'
import { isKept } from './operations'
import { Row, type Operation } from './row.svelte'
import { session } from './session.svelte'
import { toasts } from './toasts.svelte'
import { checkOffered, undoable } from './undo'

/** Events that the page remembers for its screens. */
const MAX_EVENTS = 500
/** How often facts without events are read, such as evidence of health and starts under way, in milliseconds. */
const REFRESH_MS = 15_000
const FIGURES_MS = 3_000
/** How often a server is read that starts or is asked. */
const WORKING_MS = 3_000
/** More servers than this at once are read as a whole. */
const MAX_SINGLE_READS = 20
/** The pause before the next full reading, as a multiple of the time that the last one took. */
const REST_SHARE = 20
/** How long a request of a server waits: docs/cli.md, "requests". */
export const REQUEST_WAIT_MS = 10 * 60_000

class Fleet {
  /** `waiting` until the stream is open; `lost` while the daemon does not answer. */
  connection = $state<'waiting' | 'live' | 'lost'>('waiting')
  isLost = $derived(this.connection === 'lost')
  /** Whether all servers were read once: before, nothing is known of them. */
  isRead = $state(false)
  /** When the daemon last answered. */
  heardAt = $state(0)
  /** When the page tries to connect again. */
  retryAt = $state(0)
  rows = new SvelteMap<string, Row>()
  /** In the order of the configuration. */
  names = $state.raw<string[]>([])
  list: Row[] = $derived(this.names.map((name) => this.rows.get(name)).filter((row) => row !== undefined))
  warnings = $state.raw<string[]>([])
  /** The newest last. */
  events = $state.raw<Event[]>([])
  /**
   * What servers ask and no client could be asked; `undefined` until it was read. A request that is known stays
   * the same object.
   */
  requests = $state.raw<ServerRequest[] | undefined>(undefined)
  requestsFailure = $state.raw<unknown>(undefined)
  requestCount = $derived(this.requests?.length ?? 0)
  /** Counts up when lists of servers may have changed, for screens that show them. */
  listsVersion = $state(0)
  /** Counts up when entries may have changed. */
  entriesVersion = $state(0)

  #feed = new Feed({
    live: (resumed) => {
      const was = this.connection
      this.connection = 'live'
      this.heardAt = clock.exact()
      // A restarted daemon does not repeat the events that this page missed.
      if (was !== 'live' && resumed) void this.refresh()
      if (was === 'lost') {
        void this.refreshRequests()
        void session.readSettings()
      }
    },
    lost: (retryAt) => {
      this.connection = 'lost'
      this.retryAt = retryAt
    },
    message: (type, data) => {
      this.heardAt = clock.exact()
      if (type === 'snapshot') this.#takeAll(JSON.parse(data) as Servers)
      else if (type === 'missed') {
        // A snapshot of the servers follows. What it does not have is read again.
        this.listsVersion += 1
        void this.refreshRequests()
        void session.readSettings()
      } else this.#hear(JSON.parse(data) as Event)
    },
  })
  #dirty = new Set<string>()
  #pendingEvents: Event[] = []
  #frame = 0
  #watchers = 0
  #requestReads = 0
  /** Readings of all servers under way, and when the last one ended and what it took. */
  #wholeReads = 0
  #wholeAt = 0
  #wholeMs = 0
  #requestTimer: ReturnType<typeof setTimeout> | undefined
  #timers: ReturnType<typeof setInterval>[] = []
  #seen = (): void =>
    this.#whenVisible(() => {
      void this.refresh()
      void this.#readFigures()
    })

  /** Begins to follow the daemon; the page does this once it is signed in. */
  start(): void {
    if (this.#timers.length > 0) return
    whenReached((reached) => {
      if (reached) this.heardAt = clock.exact()
      else this.#feed.doubt()
    })
    this.#feed.start()
    this.#timers = [
      setInterval(() => this.#whenVisible(() => void this.refresh()), REFRESH_MS),
      setInterval(() => this.#whenVisible(() => void this.#readFigures()), FIGURES_MS),
      setInterval(() => this.#whenVisible(() => this.#readWorking()), 1000),
    ]
    document.addEventListener('visibilitychange', this.#seen)
    void this.refreshRequests()
  }

  stop(): void {
    for (const timer of this.#timers) clearInterval(timer)
    this.#timers = []
    document.removeEventListener('visibilitychange', this.#seen)
    clearTimeout(this.#requestTimer)
    this.#feed.stop()
  }

  /** Reads figures as long as the returned function was not called. */
  watchFigures(): () => void {
    this.#watchers += 1
    untrack(() => void this.#readFigures())
    return () => {
      this.#watchers -= 1
    }
  }

  /** Reads all servers. */
  async refresh(): Promise<void> {
    const begun = Date.now()
    this.#wholeReads += 1
    try {
      this.#takeAll(await api.get<Servers>('/api/servers'))
    } catch {
      // The event stream tells when the daemon is gone, and reads all when it is back.
    } finally {
      this.#wholeReads -= 1
      this.#wholeAt = Date.now()
      this.#wholeMs = this.#wholeAt - begun
    }
  }

  /** Events tell when to: of a request whose time is over they do so only once somebody asks. */
  async refreshRequests(): Promise<void> {
    const reads = (this.#requestReads += 1)
    clearTimeout(this.#requestTimer)
    try {
      const { requests } = await api.get<ServerRequests>('/api/server-requests')
      // A later answer is newer.
      if (reads !== this.#requestReads) return
      // Numbers begin anew when the daemon does.
      const keyOf = (request: ServerRequest): string => `${request.id} ${request.askedAt}`
      const known = new Map(this.requests?.map((request) => [keyOf(request), request]))
      this.requests = requests.map((request) => known.get(keyOf(request)) ?? request)
      this.requestsFailure = undefined
      const oldest = Math.min(...requests.map((request) => Date.parse(request.askedAt)))
      if (Number.isFinite(oldest)) this.#requestTimer = setTimeout(() => void this.refreshRequests(), Math.max(0, oldest + REQUEST_WAIT_MS - clock.exact()) + 1000)
    } catch (error) {
      if (reads === this.#requestReads) this.requestsFailure = error
    }
  }

  /** Reads one server; one that is gone is taken out. */
  async refreshOne(name: string): Promise<void> {
    const row = this.rows.get(name)
    if (row) row.isReading = true
    try {
      this.#take((await api.get<ServerDetails>(path`/api/servers/${name}`)).server)
    } catch (error) {
      if (error instanceof ApiError && error.code === 'server_not_found') this.#forget(name)
    } finally {
      if (row) row.isReading = false
    }
  }

  /**
   * Asks for an operation and shows what it does meanwhile. Answers whether it succeeded.
   * With `quiet` nothing pops up: the caller says how many went well.
   */
  async operate(name: string, operation: Operation, quiet = false): Promise<boolean> {
    const row = this.rows.get(name)
    if (!row || row.busy) return false
    row.busy = operation
    row.failure = undefined
    try {
      const persist = isKept(operation, row.info)
      // The caller of a quiet one says how to undo all.
      const say = persist && !quiet ? await undoable() : toasts.show.bind(toasts)
      const body = persist ? { persist } : undefined
      const done = await api.post<Operated>(path`/api/servers/${name}/${operation}`, body)
      if (done.error) {
        row.failure = done.error
        if (!quiet) void say(texts.toasts.failed(done.error), 'bad')
        return false
      }
      if (!quiet) void say(texts.toasts.done(name, operation), 'well')
      return true
    } catch (error) {
      const message = messageOf(error)
      row.failure = message
      if (!quiet) toasts.show(operation === 'start' ? texts.toasts.failed(message) : texts.toasts.error(message), 'bad')
      return false
    } finally {
      // Until its new state is read, the button of the old one would be shown.
      await this.refreshOne(name)
      row.busy = undefined
    }
  }

  /** Has a server start with Mainstay, or not: that changes its entry. Says why not, where it could not be done. */
  async setAutoStart(row: Row, autoStart: boolean): Promise<string | undefined> {
    let failure: string | undefined
    row.autoStart = autoStart
    row.failure = undefined
    try {
      const say = await undoable()
      const done = await changeEntry(row.name, (entry) => ({ ...entry, autoStart }))
      if (done.error && autoStart) failure = done.error
      void say(serversTexts.autoStartTurned(row.name, autoStart))
    } catch (error) {
      failure = messageOf(error)
    }
    row.failure = failure
    await this.refreshOne(row.name)
    row.autoStart = undefined
    return failure
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
    if (types.has('tools_changed') || types.has('server_connected') || types.has('server_removed') || types.has('config_reloaded')) this.listsVersion += 1
    if (types.has('config_reloaded') || types.has('server_added')) this.entriesVersion += 1
    if (types.has('config_reloaded')) {
      void session.readSettings()
      void checkOffered()
    }
    if (types.has('server_request_waiting') || types.has('server_request_settled')) void this.refreshRequests()
    const last = new Map(events.map(({ server, type }) => [server, type]))
    for (const { type, server } of events) if (type === 'server_removed' && server) this.#forget(server)
    for (const [server, type] of last) if (type === 'server_starting' && server) this.rows.get(server)?.begin()
    const dirty = [...this.#dirty]
    this.#dirty.clear()
    const isWhole = types.has('config_reloaded') || types.has('server_added') || dirty.length > MAX_SINGLE_READS
    if (isWhole) void this.refresh()
    // A server that is being deleted is not read again.
    else for (const name of dirty) if (this.rows.has(name) && this.rows.get(name)?.busy !== 'remove') void this.refreshOne(name)
  }

  #takeAll(answer: Servers): void {
    const names = answer.servers.map((server) => server.name)
    const present = new Set(names)
    for (const name of this.rows.keys()) if (!present.has(name)) this.rows.delete(name)
    for (const server of answer.servers) this.#take(server)
    if (names.length !== this.names.length || names.some((name, index) => name !== this.names[index])) this.names = names
    this.warnings = answer.warnings ?? []
    if (this.isRead) return
    this.isRead = true
    void this.#readFigures()
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
    // Before they are read, no server has a row for its figures.
    if (this.#watchers === 0 || !this.isRead || this.connection !== 'live') return
    try {
      const { servers } = await api.get<Figures>('/api/figures')
      for (const figures of servers) this.rows.get(figures.name)?.measure(figures)
    } catch {
      // The next reading may succeed.
    }
  }

  /** Attempts that are due, starts and questions: no event tells what they do meanwhile. */
  #readWorking(): void {
    const now = clock.exact()
    const due = this.list.filter((row) => row.isWorking && !row.isReading && now - row.readAt >= WORKING_MS)
    if (due.length > MAX_SINGLE_READS) {
      if (this.#wholeReads === 0 && Date.now() - this.#wholeAt >= Math.max(WORKING_MS, this.#wholeMs * REST_SHARE)) void this.refresh()
    } else for (const row of due) void this.refreshOne(row.name)
  }

  #whenVisible(then: () => void): void {
    if (!document.hidden && this.connection === 'live') then()
  }
}

export const fleet = new Fleet()
