/** A call that is followed: docs/rest.md, "Tools, resources, prompts". Closing the connection cancels it. */
import { ApiError, errorOf, events, send } from '../../api/client'
import type { CallRecord } from '../../api/types'
import type { Members } from '../../forms/schema'
import { clock } from '../../lib/clock.svelte'
import { readJson, rounded } from '../../lib/json'
import { toasts, type Link } from '../../lib/toasts.svelte'
import { isErrorResult, isMembers } from '../../results/content'
import { findRecord, newTrace, type Trace } from './record'
import { toolsTexts } from './texts'

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
/** Calls that go on without their screen. Each holds a connection, and browsers open six to a host. */
const MAX_LEFT = 3

/** What a call is about, as records name it: the server's own name of a tool or prompt, or a URI. */
export interface Subject {
  server: string
  tool: string
}

export class FollowedCall {
  /** Resolved when it does not run. */
  ended: Promise<void> = Promise.resolve()
  state = $state<'idle' | 'running' | 'ok' | 'toolError' | 'failed' | 'cancelled'>('idle')
  progress = $state.raw<Progress | undefined>(undefined)
  logs = $state.raw<CallLog[]>([])
  /** Earlier lines that are not kept. */
  cutLogs = $state(0)
  startedAt = $state(0)
  endedAt = $state(0)
  result = $state.raw<unknown>(undefined)
  error = $state.raw<unknown>(undefined)
  /** The record of a call that failed or was cancelled; `undefined` until it is found. */
  record = $state.raw<CallRecord | undefined>(undefined)
  subject: Subject | undefined

  #abort: AbortController | undefined
  #timer = 0
  #nextProgress: Progress | undefined
  #nextLogs: CallLog[] = []
  #logCount = 0

  get isRunning(): boolean {
    return this.state === 'running'
  }

  /** Calls, and waits for the end. One call at a time. */
  run(path: string, body: unknown, subject: Subject): Promise<void> {
    if (!this.isRunning) this.ended = this.#run(path, body, subject)
    return this.ended
  }

  async #run(path: string, body: unknown, subject: Subject): Promise<void> {
    const abort = new AbortController()
    this.#abort = abort
    this.subject = subject
    const trace = newTrace()
    this.record = undefined
    this.state = 'running'
    this.progress = undefined
    this.logs = []
    this.cutLogs = 0
    this.#logCount = 0
    this.result = undefined
    this.error = undefined
    this.startedAt = clock.exact()
    // The end of the page would cancel it: the browser asks before.
    const ask = (event: Event): void => event.preventDefault()
    addEventListener('beforeunload', ask)
    try {
      const answer = await this.#follow(path, body, trace, abort.signal)
      this.#show()
      this.endedAt = clock.exact()
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
        this.error = error instanceof ApiError && error.status !== 0 ? error : new Error(toolsTexts.brokenOff)
        this.state = 'failed'
      }
    } finally {
      removeEventListener('beforeunload', ask)
    }
    if (this.state !== 'failed' && this.state !== 'cancelled') return
    // Another call may have begun.
    void findRecord(trace, this.startedAt, () => this.#abort !== abort).then((record) => {
      if (record) this.record = record
    })
  }

  cancel(): void {
    this.#abort?.abort()
  }

  async #follow(path: string, body: unknown, { traceparent }: Trace, signal: AbortSignal): Promise<{ status: number; body: unknown }> {
    const response = await send('POST', path, { body, signal, headers: { traceparent } }, 'text/event-stream, application/json')
    if (!response.ok) throw await errorOf(response)
    if (!response.headers.get('content-type')?.startsWith('text/event-stream') || !response.body) {
      return { status: response.status, body: readJson(await response.text()) }
    }
    for await (const event of events(response.body)) {
      const data = readJson(event.data)
      if (event.event === 'answer' && isMembers(data)) return { status: Number(data.status), body: data.body }
      if (isMembers(data)) this.#hear(event.event, data)
    }
    throw new Error(toolsTexts.brokenOff)
  }

  #hear(type: string, data: Record<string, unknown>): void {
    if (type === 'progress') {
      const [progress, total] = [rounded(data.progress), rounded(data.total)]
      this.#nextProgress = {
        progress: typeof progress === 'number' ? progress : 0,
        total: typeof total === 'number' && total > 0 ? total : undefined,
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

/** A call of a tool, and what it was called with. */
interface Left {
  call: FollowedCall
  value: Members
}

/** Calls that go on without their screen, by their tools. */
const left = new Map<string, Left>()

/** The call of a tool that went on without its screen, which shows it again. */
export function takeUp(tool: string): Left | undefined {
  const found = left.get(tool)
  left.delete(tool)
  return found
}

/** The screen of a call is left. One that runs goes on: that is said, and how it ends. */
export function leave(tool: string, call: FollowedCall, value: Members, link: Link): void {
  if (!call.isRunning) return
  if (left.size >= MAX_LEFT) {
    call.cancel()
    toasts.show(toolsTexts.tooManyLeft(tool, MAX_LEFT), 'bad', link)
    return
  }
  left.set(tool, { call, value })
  toasts.show(toolsTexts.goesOn(tool), 'off', link)
  void call.ended.then(() => {
    // Its screen may show it again, and may have been left again.
    if (left.get(tool)?.call !== call) return
    left.delete(tool)
    if (call.state !== 'idle') toasts.show(toolsTexts.leftEnded(tool, toolsTexts.state[call.state]), call.state === 'ok' ? 'well' : 'bad', link)
  })
}
