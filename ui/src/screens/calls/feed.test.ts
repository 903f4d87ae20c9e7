import { afterEach, expect, test, vi } from 'vitest'
import { api } from '../../api/client'
import type { RecordGap } from '../../api/types'
import { clock } from '../../lib/clock.svelte'
import { CallFeed } from './feed.svelte'

afterEach(() => vi.restoreAllMocks())

const record = (id: number, at: number): object => ({
  id: String(id),
  name: 'a/b',
  server: 'a',
  tool: 'b',
  door: 'rest',
  started_at: new Date(at).toISOString(),
  queue_ms: 0,
  upstream_ms: 0,
  attempt: 1,
  state: 'answered',
  status: 'ok',
})

/** A poll of a search reads the last seconds, however long ago the last call is that fits: each call is read for it. */
test('a search is followed from now on', async () => {
  const now = clock.exact()
  const old = record(7, now - 3_600_000)
  for (const calls of [[], [old]]) {
    const get = vi.spyOn(api, 'get').mockResolvedValue({ calls, total_count: 1, truncated: true, next: '7', searched_back_to: new Date(now - 7000).toISOString() })
    const feed = new CallFeed(() => ({ text: 'x' }), undefined)
    await feed.first
    expect(feed.searchedBackTo).toBe(now - 7000)
    await feed.poll(false)
    const query = get.mock.calls.at(-1)?.[1] as { since: string }
    expect(Date.parse(query.since)).toBeGreaterThan(now - 11_000)
    expect(Date.parse(query.since)).toBeLessThan(clock.exact() - 9000)
    feed.close()
    vi.restoreAllMocks()
  }
})

test('times of which calls are missing are told once, the newest first', async () => {
  const gap = (minute: string, calls: number): RecordGap => ({ since: `2026-11-28T10:${minute}:00Z`, until: `2026-11-28T10:${minute}:30Z`, calls, reason: 'disk is full' })
  const page = (gaps: RecordGap[]): object => ({ calls: [record(7, clock.exact())], total_count: 1, truncated: true, next: '7', gaps })
  const get = vi.spyOn(api, 'get')
  get.mockResolvedValueOnce(page([gap('20', 3)]))
  const feed = new CallFeed(() => ({}), undefined)
  await feed.first
  get.mockResolvedValueOnce(page([gap('10', 1)]))
  await feed.loadMore()
  get.mockResolvedValueOnce(page([gap('20', 5)]))
  await feed.poll(false)
  expect(feed.gaps.map((gap) => gap.calls)).toEqual([5, 1])
  feed.close()
  vi.restoreAllMocks()
})
