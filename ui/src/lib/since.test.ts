import { expect, it } from 'vitest'
import type { Server } from '../api/types'
import { Row } from './row.svelte'
import { sinceOf } from './since.svelte'

const downSince = '2026-01-01T00:00:20Z'
const row = (more: Partial<Server>): Row => new Row({ name: 'files', enabled: true, connected: false, downSince, ...more } as Server)

it('tells since when a server is down, and of no other one', () => {
  for (const status of ['error', 'failed', 'crashed', 'reconnecting', 'connecting']) expect(sinceOf(row({ status })), status).toBe(Date.parse(downSince))
  for (const status of ['pending', 'disconnected']) expect(sinceOf(row({ status })), status).toBeUndefined()
  expect(sinceOf(row({ status: 'connected', connected: true, downSince: null }))).toBeUndefined()
})

it('forgets since when one was degraded once it is well', () => {
  const hanging = { name: 'files', enabled: true, status: 'connected', connected: true, healthStatus: 'degraded' } as Server
  const it = new Row(hanging)
  expect(sinceOf(it)).toBeUndefined()
  it.degradedSince = 5000
  it.take({ ...hanging })
  expect(sinceOf(it)).toBe(5000)
  it.take({ ...hanging, healthStatus: 'healthy' })
  it.take(hanging)
  expect(sinceOf(it)).toBeUndefined()
})
