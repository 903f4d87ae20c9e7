import { expect, it } from 'vitest'
import type { Server } from '../api/types'
import { Row } from './row.svelte'
import { sinceOf } from './since'

const downSince = '2026-01-01T00:00:20Z'
const row = (more: Partial<Server>): Row => new Row({ name: 'files', enabled: true, connected: false, downSince, ...more } as Server)

it('tells since when a server is down, and of no other one', () => {
  for (const status of ['error', 'failed', 'crashed', 'reconnecting', 'connecting']) expect(sinceOf(row({ status })), status).toBe(Date.parse(downSince))
  for (const status of ['pending', 'disconnected']) expect(sinceOf(row({ status })), status).toBeUndefined()
  expect(sinceOf(row({ status: 'connected', connected: true, downSince: null }))).toBeUndefined()
})

it('tells since when one is degraded', () => {
  const hanging = { status: 'connected', connected: true, downSince: null, degradedSince: '2026-01-01T00:01:00Z' }
  expect(sinceOf(row({ ...hanging, healthStatus: 'degraded' }))).toBe(Date.parse('2026-01-01T00:01:00Z'))
  expect(sinceOf(row({ ...hanging, healthStatus: 'healthy', degradedSince: null }))).toBeUndefined()
})
