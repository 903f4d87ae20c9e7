import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { api, ApiError } from '../../api/client'
import { findRecord, isUnsure, newTrace } from './record'

it('gives each call a trace of its own', () => {
  const [one, other] = [newTrace(), newTrace()]
  expect(one.traceparent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/)
  expect(one.traceparent).toContain(one.id)
  expect(one.id).not.toBe(other.id)
})

describe('the record of a call', () => {
  const trace = newTrace()
  const get = vi.spyOn(api, 'get')
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => {
    vi.useRealTimers()
    get.mockReset()
  })

  const record = (id: string, status: string) => ({ id, status })
  const find = async (isOver = () => false) => {
    const found = findRecord(trace, 0, isOver)
    await vi.runAllTimersAsync()
    return (await found)?.id
  }

  it('is that of its trace', async () => {
    get.mockResolvedValue({ calls: [record('2', 'refused')] })
    expect(await find()).toBe('2')
    expect(get).toHaveBeenCalledTimes(1)
    expect(get).toHaveBeenCalledWith('/api/call-records', expect.objectContaining({ trace_id: trace.id, door: 'rest' }))
  })

  it('is looked for until the call has ended, and given as it is at last', async () => {
    get.mockResolvedValueOnce({ calls: [] }).mockResolvedValueOnce({ calls: [record('2', 'open')] })
    get.mockResolvedValue({ calls: [record('2', 'cancelled')] })
    expect(await find()).toBe('2')
    expect(get).toHaveBeenCalledTimes(3)
    get.mockResolvedValue({ calls: [record('4', 'open')] })
    expect(await find()).toBe('4')
    expect(get).toHaveBeenCalledTimes(8)
  })

  it('is none where records cannot be read, where there is none, and once another call has begun', async () => {
    get.mockRejectedValueOnce(new ApiError('journal_disabled', 503, ''))
    expect(await find()).toBeUndefined()
    get.mockResolvedValue({ calls: [] })
    expect(await find()).toBeUndefined()
    get.mockResolvedValue({ calls: [record('2', 'cancelled')] })
    expect(await find(() => true)).toBeUndefined()
  })
})

it.each<[string, number, boolean]>([
  ['call_failed', 504, true],
  ['outcome_unknown', 502, true],
  ['message_too_large', 502, true],
  ['call_failed', 502, false],
  ['server_not_connected', 503, false],
])('%s, %i: may have run is %s', (code, status, may) => {
  expect(isUnsure(new ApiError(code, status, ''))).toBe(may)
})

it('may have run where the connection to Mainstay broke', () => {
  expect(isUnsure(new Error('broke'))).toBe(true)
})
