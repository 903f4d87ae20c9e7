/**
 * The events of the daemon. All tabs of a browser share one stream, since a browser opens only six connections
 * to a host: the tab that holds a lock reads it and passes everything on; when it is closed, the next one goes
 * on where it was.
 */
import { api, ApiError } from '../api/client'
import { EventStream } from '../api/stream'
import { EVENT_TYPES } from '../api/types'
import { clock } from './clock.svelte'

const NAME = 'mainstay.events'
const FIRST_RETRY_MS = 500
const MAX_RETRY_MS = 5000
/** A session is read within this time, or the daemon hangs. */
const SESSION_MS = 5000
const readSession = (): Promise<unknown> => api.get('/api/session', {}, AbortSignal.timeout(SESSION_MS))

/** Messages between tabs. */
type News =
  | { kind: 'hello' }
  /** A request was not answered. */
  | { kind: 'doubt' }
  | { kind: 'live' }
  | { kind: 'lost'; retryAt: number }
  | { kind: 'message'; type: string; data: string; id: string }

export interface Listener {
  /** The stream is open; with `resumed` it went on after a place, and no snapshot comes. */
  live(resumed: boolean): void
  /** The time of the next attempt. */
  lost(retryAt: number): void
  /** `snapshot` and `missed`, or an event. */
  message(type: string, data: string): void
}

export class Feed {
  #listener: Listener
  #channel: BroadcastChannel | undefined
  #source: EventStream | undefined
  #leave: (() => void) | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #lastId = ''
  #isDoubted = false
  #retryMs = FIRST_RETRY_MS
  /** The state that is sent to a tab that asks for it. */
  #state: News = { kind: 'lost', retryAt: 0 }

  constructor(listener: Listener) {
    this.#listener = listener
  }

  start(): void {
    // Locks need a secure context, which an address in the network without TLS is not.
    if (!navigator.locks) {
      this.#open()
      return
    }
    const channel = new BroadcastChannel(NAME)
    const abort = new AbortController()
    this.#channel = channel
    channel.onmessage = (message: MessageEvent<News>) => this.#hear(message.data)
    channel.postMessage({ kind: 'hello' } satisfies News)
    const held = new Promise<void>((resolve) => {
      this.#leave = () => {
        abort.abort()
        resolve()
      }
    })
    navigator.locks
      .request(NAME, { signal: abort.signal }, () => {
        this.#open()
        return held
      })
      .catch(() => {
        // This tab stopped before it had its turn.
      })
  }

  stop(): void {
    this.#leave?.()
    this.#leave = undefined
    this.#channel?.close()
    this.#channel = undefined
    this.#source?.close()
    this.#source = undefined
    clearTimeout(this.#timer)
  }

  /** A request was not answered: a daemon that hangs, or a network that is gone, closes no stream. */
  doubt(): void {
    if (this.#source) void this.#check()
    else this.#channel?.postMessage({ kind: 'doubt' } satisfies News)
  }

  async #check(): Promise<void> {
    const source = this.#source
    if (!source || this.#isDoubted) return
    this.#isDoubted = true
    try {
      await readSession()
    } catch (error) {
      if (this.#source === source && error instanceof ApiError && error.status === 0) {
        source.close()
        this.#later()
      }
    } finally {
      this.#isDoubted = false
    }
  }

  /** News of the tab that reads the stream, or a question to it. */
  #hear(news: News): void {
    const isReader = this.#source !== undefined || this.#timer !== undefined
    if (news.kind === 'hello') {
      if (isReader) this.#channel?.postMessage(this.#state)
    } else if (news.kind === 'doubt') {
      void this.#check()
    } else if (!isReader) {
      this.#tell(news, news.kind === 'live')
    }
  }

  #tell(news: News, resumed: boolean): void {
    if (news.kind === 'live') this.#listener.live(resumed)
    else if (news.kind === 'lost') this.#listener.lost(news.retryAt)
    else if (news.kind === 'message') {
      if (news.id) this.#lastId = news.id
      this.#listener.message(news.type, news.data)
    }
  }

  #pass(news: News, resumed = false): void {
    if (news.kind !== 'message') this.#state = news
    this.#channel?.postMessage(news)
    this.#tell(news, resumed)
  }

  #open(): void {
    const resumed = this.#lastId !== ''
    const source = new EventStream(resumed ? `/api/events?after=${this.#lastId}` : '/api/events', false)
    this.#source = source
    this.#timer = undefined
    source.addEventListener('open', () => {
      this.#retryMs = FIRST_RETRY_MS
      this.#pass({ kind: 'live' }, resumed)
    })
    for (const type of ['snapshot', 'missed', ...EVENT_TYPES]) {
      source.addEventListener(type, (message) => {
        this.#pass({ kind: 'message', type, data: message.data, id: message.lastEventId })
      })
    }
    source.addEventListener('error', () => {
      // A session may have ended, or the daemon may be gone.
      source.close()
      if (this.#source === source) this.#later()
    })
  }

  #later(): void {
    this.#source = undefined
    this.#timer = setTimeout(() => void this.#again(), this.#retryMs)
    this.#pass({ kind: 'lost', retryAt: clock.exact() + this.#retryMs })
    this.#retryMs = Math.min(this.#retryMs * 2, MAX_RETRY_MS)
  }

  /** A request tells whether the session has ended; the stream would not. */
  async #again(): Promise<void> {
    try {
      await readSession()
    } catch (error) {
      if (error instanceof ApiError && (error.status === 401 || error.status === 403)) return
      if (this.#timer !== undefined) this.#later()
      return
    }
    if (this.#timer !== undefined) this.#open()
  }
}
