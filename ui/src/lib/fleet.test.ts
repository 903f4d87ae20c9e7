import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { fleet } from './fleet.svelte'

/** What the page listens to, and what it has asked for. */
const heard = new Map<string, (message: { data: string; lastEventId: string }) => void>()
let asked: string[] = []

class Stream {
  addEventListener(type: string, listener: (message: { data: string; lastEventId: string }) => void): void {
    heard.set(type, listener)
  }
  close(): void {}
}

beforeEach(() => {
  vi.stubGlobal('EventSource', Stream)
  vi.stubGlobal('navigator', {})
  vi.stubGlobal('document', { hidden: false, addEventListener: () => {} })
  vi.stubGlobal('fetch', (at: string) => {
    asked.push(at)
    return Promise.resolve(Response.json({ servers: [], requests: [] }))
  })
})
afterEach(() => {
  fleet.stop()
  vi.unstubAllGlobals()
})

function hear(type: string, data: unknown = {}): void {
  heard.get(type)?.({ data: JSON.stringify(data), lastEventId: '' })
}

test('where events were missed, requests and lists are read again', () => {
  fleet.start()
  hear('open')
  hear('snapshot', { servers: [] })
  const before = fleet.listsVersion
  asked = []
  hear('missed', { missed: 7 })
  expect(asked).toEqual(['/api/server-requests'])
  expect(fleet.listsVersion).toBe(before + 1)
  expect(fleet.events, 'it is no event of a server').toEqual([])
})
