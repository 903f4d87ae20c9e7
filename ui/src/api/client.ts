/**
 * The REST API of Mainstay, as the page calls it: same origin, with the cookie of the signed-in session and its page
 * key. docs/rest.md describes the routes.
 */
import * as pageKey from '../lib/pageKey'
import { readJson } from '../lib/json'
import { texts } from '../texts'
import type { Finding } from './types'

/** A failed request: an answer that is not a success, or no answer. */
export class ApiError extends Error {
  /** The word that programs compare, such as `server_not_found`; `unreachable` where nobody answered. */
  readonly code: string
  /** The HTTP status; 0 where nobody answered. */
  readonly status: number
  /** The whole body of the answer. */
  readonly body: Record<string, unknown>

  constructor(code: string, status: number, message: string, body: Record<string, unknown> = {}) {
    super(message)
    this.code = code
    this.status = status
    this.body = body
  }

  get hint(): string | undefined {
    return typeof this.body.hint === 'string' ? this.body.hint : undefined
  }

  /** Findings about a configuration or an entry (`invalid_config`). */
  get findings(): Finding[] {
    return Array.isArray(this.body.findings) ? (this.body.findings as Finding[]) : []
  }
}

/** The text of an error. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

export function isJournalOff(error: unknown): boolean {
  return error instanceof ApiError && error.code === 'journal_disabled'
}

export type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>

interface Options {
  query?: Query
  signal?: AbortSignal
  headers?: Record<string, string>
  body?: unknown
}

let onSignedOut = (): void => {}
let onReached = (_reached: boolean): void => {}
let onDated = (_date: string | null, _sentAt: number, _receivedAt: number): void => {}

/** Called when the API says that the session has ended, or that this page has no key of it. */
export function whenSignedOut(callback: () => void): void {
  onSignedOut = callback
}

/** Called after each request with whether the daemon answered. */
export function whenReached(callback: (reached: boolean) => void): void {
  onReached = callback
}

/** Called with the `Date` of each answer, and when its request was sent and its head was received. */
export function whenDated(callback: typeof onDated): void {
  onDated = callback
}

/** A path with its parts encoded and its query. */
export function url(path: string, query: Query = {}): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === '' || value === false) continue
    if (typeof value === 'object') {
      for (const item of value) search.append(name, item)
    } else {
      search.append(name, String(value))
    }
  }
  const text = search.toString()
  return text ? `${path}?${text}` : path
}

/** Sends a request. Returns answers of every status. */
export async function send(method: string, path: string, options: Options = {}, accept = 'application/json'): Promise<Response> {
  const headers: Record<string, string> = { Accept: accept, ...options.headers }
  let body: string | undefined
  if (options.body !== undefined) {
    headers['Content-Type'] = 'application/json'
    body = JSON.stringify(options.body)
  }
  const key = pageKey.get()
  if (key) headers['X-Page-Key'] = key
  const request: RequestInit = { method, headers, credentials: 'same-origin', cache: 'no-store', redirect: 'error' }
  if (body !== undefined) request.body = body
  if (options.signal) request.signal = options.signal
  try {
    const sentAt = Date.now()
    const response = await fetch(url(path, options.query), request)
    onDated(response.headers.get('date'), sentAt, Date.now())
    onReached(true)
    return response
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error
    onReached(false)
    throw new ApiError('unreachable', 0, texts.common.unreachable)
  }
}

/** The error that an answer describes. */
export async function errorOf(response: Response): Promise<ApiError> {
  let body: Record<string, unknown> = {}
  try {
    const parsed: unknown = await response.json()
    if (parsed && typeof parsed === 'object') body = parsed as Record<string, unknown>
  } catch {
    // Not JSON: a proxy answered. Only the status is known.
  }
  if (response.status === 401 || body.error === 'not_our_page') onSignedOut()
  const code = typeof body.error === 'string' ? body.error : `http_${response.status}`
  const message = typeof body.message === 'string' ? body.message : `${response.status} ${response.statusText}`
  return new ApiError(code, response.status, message, body)
}

/** An answer that takes longer means that the daemon hangs, in milliseconds. */
const LIMIT_MS = 20_000

/** Fails after a time limit with the error of a daemon that does not answer. */
function limited(signal: AbortSignal | undefined): AbortSignal {
  return AbortSignal.any([AbortSignal.timeout(LIMIT_MS), ...(signal ? [signal] : [])])
}

async function request<T>(method: string, path: string, options: Options): Promise<T> {
  const response = await send(method, path, options)
  if (!response.ok) throw await errorOf(response)
  if (response.status === 204) return undefined as T
  return readJson(await response.text()) as T
}

export const api = {
  get: <T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> =>
    request<T>('GET', path, { ...(query && { query }), signal: limited(signal) }),
  post: <T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> =>
    request<T>('POST', path, { body, ...(signal && { signal }) }),
  put: <T>(path: string, body: unknown, query?: Query): Promise<T> =>
    request<T>('PUT', path, { body, ...(query && { query }) }),
  delete: <T>(path: string, query?: Query): Promise<T> => request<T>('DELETE', path, query ? { query } : {}),
}

/** One event of a stream of server-sent events. */
export interface ServerSentEvent {
  event: string
  data: string
  id: string
}

/** Reads a body of server-sent events to its end. */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerSentEvent> {
  const reader = body.pipeThrough(new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>).getReader()
  // A line may be long (a result of 10 MB), so an unfinished line is kept in pieces and joined once.
  let pieces: string[] = []
  let next: ServerSentEvent = { event: 'message', data: '', id: '' }
  try {
    for (;;) {
      const { value, done } = await reader.read()
      if (done) return
      if (!/[\r\n]/.test(value)) {
        pieces.push(value)
        continue
      }
      const lines = (pieces.join('') + value).split(/\r\n|\n|\r/)
      pieces = [lines.pop() ?? '']
      for (const line of lines) {
        if (line === '') {
          if (next.data !== '') yield { ...next, data: next.data.slice(0, -1) }
          next = { event: 'message', data: '', id: next.id }
        } else if (line.startsWith('event:')) {
          next.event = line.slice(6).trim()
        } else if (line.startsWith('data:')) {
          next.data += line.slice(line[5] === ' ' ? 6 : 5) + '\n'
        } else if (line.startsWith('id:')) {
          next.id = line.slice(3).trim()
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {})
  }
}

export function path(strings: TemplateStringsArray, ...values: string[]): string {
  return strings.reduce((text, part, index) => text + part + (index < values.length ? encodeURIComponent(values[index] ?? '') : ''), '')
}
