/** A call that is followed: docs/rest.md, "Tools, resources, prompts". Closing the connection cancels it. */
import { ApiError, errorOf, events, send } from '../../api/client'
import { clock } from '../../lib/clock.svelte'
import { isErrorResult, isMembers } from '../../results/content'
import { texts } from '../../texts'

export interface Progress {
  progress: number
  total: number | undefined
  message: string
}

export interface CallLog {
  id: number
  level: string
  text: string
}

/** Lines of the log of one call that are kept. */
const MAX_LOGS = 500
/** Progress and logs are shown at most this often. */
const SHOW_MS = 100

export class FollowedCall {
  state = $state<'idle' | 'running' | 'ok' | 'toolError' | 'failed' | 'cancelled'>('idle')
  progress = $state.raw<Progress | undefined>(undefined)
  logs = $state.raw<CallLog[]>([])
  /** Earlier lines that are not kept. */
  cutLogs = $state(0)
  startedAt = $state(0)
  endedAt = $state(0)
  /** The HTTP status of the answer. */
  status = $state<number | undefined>(undefined)
  result = $state.raw<unknown>(undefined)
  error = $state.raw<unknown>(undefined)

  #abort: AbortController | undefined
  #timer = 0
  #nextProgress: Progress | undefined
  #nextLogs: CallLog[] = []
  #logCount = 0

  get isRunning(): boolean {
    return this.state === 'running'
  }

  /** Calls, and waits for the end. One call at a time. */
  async run(path: string, body: unknown): Promise<void> {
    if (this.isRunning) return
    const abort = new AbortController()
    this.#abort = abort
    this.state = 'running'
    this.progress = undefined
    this.logs = []
    this.cutLogs = 0
    this.#logCount = 0
    this.status = undefined
    this.result = undefined
    this.error = undefined
    this.startedAt = clock.exact()
    try {
      const answer = await this.#follow(path, body, abort.signal)
      this.#show()
      this.endedAt = clock.exact()
      this.status = answer.status
      const { body: content } = answer
      if (answer.status >= 400) {
        const members = isMembers(content) ? content : {}
        const code = typeof members.error === 'string' ? members.error : `http_${answer.status}`
        this.error = new ApiError(code, answer.status, typeof members.message === 'string' ? members.message : code, members)
        this.state = 'failed'
      } else {
        this.result = isMembers(content) && 'result' in content ? content.result : content
        this.state = isErrorResult(this.result) ? 'toolError' : 'ok'
      }
    } catch (error) {
      this.#show()
      this.endedAt = clock.exact()
      if (abort.signal.aborted) {
        this.state = 'cancelled'
      } else {
        this.error = error instanceof ApiError && error.status !== 0 ? error : new Error(texts.tools.brokenOff)
        this.status = error instanceof ApiError && error.status !== 0 ? error.status : undefined
        this.state = 'failed'
      }
    }
  }

  cancel(): void {
    this.#abort?.abort()
  }

  async #follow(path: string, body: unknown, signal: AbortSignal): Promise<{ status: number; body: unknown }> {
    const response = await send('POST', path, { body, signal }, 'text/event-stream, application/json')
    if (!response.ok) throw await errorOf(response)
    if (!response.headers.get('content-type')?.startsWith('text/event-stream') || !response.body) {
      return { status: response.status, body: (await response.json()) as unknown }
    }
    for await (const event of events(response.body)) {
      const data = JSON.parse(event.data) as unknown
      if (event.event === 'answer' && isMembers(data)) return { status: Number(data.status), body: data.body }
      if (isMembers(data)) this.#hear(event.event, data)
    }
    throw new Error(texts.tools.brokenOff)
  }

  #hear(type: string, data: Record<string, unknown>): void {
    if (type === 'progress') {
      this.#nextProgress = {
        progress: typeof data.progress === 'number' ? data.progress : 0,
        total: typeof data.total === 'number' && data.total > 0 ? data.total : undefined,
        message: typeof data.message === 'string' ? data.message : '',
      }
    } else if (type === 'log') {
      const text = typeof data.data === 'string' ? data.data : (JSON.stringify(data.data) ?? '')
      const logger = typeof data.logger === 'string' ? `${data.logger}: ` : ''
      this.#logCount += 1
      this.#nextLogs.push({ id: this.#logCount, level: typeof data.level === 'string' ? data.level : '', text: logger + text.slice(0, 10_000) })
      if (this.#nextLogs.length > MAX_LOGS) this.#nextLogs.shift()
    } else {
      return
    }
    this.#timer ||= setTimeout(() => this.#show(), SHOW_MS) as unknown as number
  }

  #show(): void {
    clearTimeout(this.#timer)
    this.#timer = 0
    if (this.#nextProgress) this.progress = this.#nextProgress
    this.#nextProgress = undefined
    if (this.#nextLogs.length === 0) return
    this.logs = [...this.logs, ...this.#nextLogs].slice(-MAX_LOGS)
    this.cutLogs = this.#logCount - this.logs.length
    this.#nextLogs = []
  }
}
