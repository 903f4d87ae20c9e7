/** One server as the page knows it. */
import type { Server, ServerFigures } from '../api/types'
import { texts } from '../texts'
import { clock } from './clock.svelte'
import { lookOf, type ServerLook } from './status'

/** An answer that takes no longer is nothing to tell. */
const USUAL_MS = 2000

/** Two answers of the daemon tell the same moment a few milliseconds apart. */
const SLACK_MS = 100

export type Operation = 'start' | 'stop' | 'restart' | 'reconnect' | 'enable' | 'disable'

/** One server. Its members change alone, so that only its row is drawn again. */
export class Row {
  readonly name: string
  info = $state.raw<Server>({} as Server)
  figures = $state.raw<ServerFigures | undefined>(undefined)
  /** When `info` was read, for countdowns: `nextRetryMs` counts from there. */
  readAt = $state(0)
  /** Whether it is being read alone. */
  isReading = false
  /** When it was last heard, as its figures have it: they are read more often than `info`. */
  answeredAt = $state(0)
  /** What a person asked for here and was not answered yet. */
  busy = $state<Operation | 'remove' | 'approve' | undefined>(undefined)
  /** Whether it is to start with Mainstay, where that was asked for here and was not answered yet. */
  autoStart = $state<boolean | undefined>(undefined)
  #failure = $state<string | undefined>(undefined)
  /** The status that was read first after it failed. */
  #failedAs: string | undefined
  /** Derived once for each change, and read by many places. */
  look: ServerLook = $derived(lookOf(this.info, this.figures))

  constructor(info: Server) {
    this.name = info.name
    this.take(info)
  }

  /** Why the last thing that was asked for failed, until the server's state is another one. */
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

  /** An attempt has begun; its outcome is read. */
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
