/** One server as the page knows it. */
import type { Login, Server, ServerFigures } from '../api/types'
import { texts } from '../texts'
import { clock } from './clock.svelte'
import { lookOf, type ServerLook } from './status'

/** Answers within this time are not worth showing, in milliseconds. */
const USUAL_MS = 2000

/** Two answers of the daemon tell the same moment a few milliseconds apart. */
const SLACK_MS = 100

export type Operation = 'start' | 'stop' | 'restart' | 'reconnect' | 'enable' | 'disable'

/** One server. Each server is an object of its own, so that a change draws only its row again. */
export class Row {
  readonly name: string
  info = $state.raw<Server>({} as Server)
  figures = $state.raw<ServerFigures | undefined>(undefined)
  /** When `info` was read, for countdowns: `nextRetryMs` counts from there. */
  readAt = $state(0)
  /** Whether the state of this server alone is being read. */
  isReading = false
  /** When the server last answered, by its figures, which are read more often than `info`. */
  answeredAt = $state(0)
  /** The operation that a person started here and that has not ended. */
  busy = $state<Operation | 'remove' | 'approve' | undefined>(undefined)
  /** The value of auto-start that is being saved. */
  autoStart = $state<boolean | undefined>(undefined)
  #failure = $state<string | undefined>(undefined)
  /** The status that was read first after it failed. */
  #failedAs: string | undefined
  /** Derived once for each change, because many components read it. */
  look: ServerLook = $derived(lookOf(this.info, this.figures))
  /** Who has to log in to the server. `null` if it needs no login. */
  login: Login['grant'] | null = $derived(this.info.nextAction === 'log_in' ? 'person' : null)

  constructor(info: Server) {
    this.name = info.name
    this.take(info)
  }

  /** Why the last operation failed, until the state of the server changes. */
  get failure(): string | undefined {
    return this.#failure
  }

  set failure(why: string | undefined) {
    this.#failure = why
    this.#failedAs = undefined
  }

  take(info: Server): void {
    // What is read before the operation has ended belongs to it.
    if (this.busy) this.#failedAs = info.status
    else if (this.#failure === texts.common.unreachable || info.status !== (this.#failedAs ??= info.status)) this.failure = undefined
    this.info = info
    this.readAt = clock.exact()
  }

  /** The due attempt has begun: its outcome is read. */
  begin(): void {
    const isAgain = this.info.status === 'reconnecting'
    this.info = { ...this.info, status: isAgain ? 'reconnecting' : 'connecting', connected: false, nextRetryMs: null, nextAction: null, nextStep: null, retried: true }
  }

  measure(figures: ServerFigures): void {
    this.figures = figures
    this.answeredAt = figures.answeredAt ?? 0
  }

  /** Whether, when it was read, a question waited longer than usual, and nothing was heard since it was asked. */
  get isAsked(): boolean {
    const { askedAt } = this.info
    return askedAt != null && askedAt + SLACK_MS > this.answeredAt && this.readAt - askedAt >= USUAL_MS
  }

  /** Whether it starts, is due to, or is asked: of what happens meanwhile no event tells. */
  get isWorking(): boolean {
    const { status } = this.info
    return this.isAsked || this.look.word === 'starting' || (status === 'reconnecting' ? (this.nextAttemptAt ?? 0) : (this.nextAttemptAt ?? Infinity)) < clock.exact()
  }

  /** When the next attempt is due, in milliseconds since 1970. */
  get nextAttemptAt(): number | undefined {
    return this.info.nextRetryMs == null ? undefined : this.readAt + this.info.nextRetryMs
  }
}
