import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { fleet } from './fleet.svelte'

/** What the page listens to. */
const { listeners, Stream } = vi.hoisted(() => {
  type Listener = (message: { data: string; lastEventId: string }) => void
  const listeners = new Map<string, Listener>()
  class Stream {
    addEventListener(type: string, listener: Listener): void {
      listeners.set(type, listener)
    }
    close(): void {}
  }
  return { listeners, Stream }
})
vi.mock('../api/stream', () => ({ EventStream: Stream }))

/** What it has asked for. */
let requestedPaths: string[] = []
/** The listeners of the document. */
const watching = new Set<unknown>()

beforeEach(() => {
  vi.stubGlobal('navigator', {})
  vi.stubGlobal('document', {
    hidden: false,
    addEventListener: (_: string, listener: unknown) => watching.add(listener),
    removeEventListener: (_: string, listener: unknown) => watching.delete(listener),
  })
  vi.stubGlobal('fetch', (at: string) => {
    requestedPaths.push(at)
    return Promise.resolve(Response.json({ servers: [], requests: [] }))
  })
})
afterEach(() => {
  fleet.stop()
  vi.unstubAllGlobals()
})

function hear(type: string, data: unknown = {}): void {
  listeners.get(type)?.({ data: JSON.stringify(data), lastEventId: '' })
}

test('where events were missed, requests, settings and lists are read again', () => {
  fleet.start()
  hear('open')
  hear('snapshot', { servers: [] })
  const before = fleet.listsVersion
  requestedPaths = []
  hear('missed', { missed: 7 })
  expect(requestedPaths).toEqual(['/api/server-requests', '/api/about'])
  expect(fleet.listsVersion).toBe(before + 1)
  expect(fleet.events, 'it is no event of a server').toEqual([])
})

test('figures are read as soon as there are rows for them, and when the page is seen again', () => {
  fleet.isRead = false
  const leave = fleet.watchFigures()
  fleet.start()
  hear('open')
  requestedPaths = []
  hear('snapshot', { servers: [] })
  expect(requestedPaths).toEqual(['/api/figures'])
  requestedPaths = []
  for (const seen of watching) (seen as () => void)()
  expect(requestedPaths).toEqual(['/api/servers', '/api/figures'])
  leave()
})

test('a server that is asked is read again alone, once until it is answered; one that is busy is not', () => {
  vi.useFakeTimers()
  try {
    fleet.start()
    hear('open')
    const server = (name: string, askedMs: number): unknown => ({ name, enabled: true, status: 'connected', connected: true, askedAt: Date.now() - askedMs })
    hear('snapshot', { servers: [server('slow', 5000), server('busy', 500)] })
    vi.stubGlobal('fetch', (at: string) => {
      requestedPaths.push(at)
      return new Promise(() => {})
    })
    requestedPaths = []
    vi.advanceTimersByTime(9000)
    expect(requestedPaths).toEqual(['/api/servers/slow'])
  } finally {
    vi.useRealTimers()
  }
})

test('where many servers are asked, all are read at once, and not again before that is answered', () => {
  vi.useFakeTimers()
  try {
    fleet.start()
    hear('open')
    hear('snapshot', { servers: Array.from({ length: 30 }, (_, index) => ({ name: `s${index}`, enabled: true, status: 'connected', connected: true, askedAt: Date.now() - 5000 })) })
    vi.stubGlobal('fetch', (at: string) => {
      requestedPaths.push(at)
      return new Promise(() => {})
    })
    requestedPaths = []
    vi.advanceTimersByTime(9000)
    expect(requestedPaths).toEqual(['/api/servers'])
  } finally {
    vi.useRealTimers()
  }
})

test('after it has stopped nothing of it listens', () => {
  fleet.start()
  expect(watching.size).toBe(1)
  fleet.stop()
  expect(watching.size).toBe(0)
})
