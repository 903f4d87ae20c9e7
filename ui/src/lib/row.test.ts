import { expect, it } from 'vitest'
import type { Server } from '../api/types'
import { texts } from '../texts'
import { Row } from './row.svelte'

const info = (status: string): Server => ({ name: 'alpha', status, enabled: true, connected: status === 'connected' }) as Server

/** A row whose operation failed, and as which it was read then. */
function failed(why: string, before: string, after?: string): Row {
  const row = new Row(info(before))
  row.busy = 'start'
  row.failure = why
  if (after) row.take(info(after))
  row.busy = undefined
  return row
}

it('keeps why an operation failed until the state is another one', () => {
  const row = failed('no such program', 'stopped', 'error')
  row.take(info('error'))
  expect(row.failure).toBe('no such program')
  row.take(info('connected'))
  expect(row.failure).toBeUndefined()
})

it('compares with the first state that is read after the failure', () => {
  const row = failed('it is not written', 'stopped')
  for (const status of ['connected', 'connected']) row.take(info(status))
  expect(row.failure).toBe('it is not written')
  row.take(info('stopped'))
  expect(row.failure).toBeUndefined()
})

it('does not say that Mainstay does not answer once it has answered', () => {
  const row = failed(texts.common.unreachable, 'connected')
  row.take(info('connected'))
  expect(row.failure).toBeUndefined()
})
