/** What a person can do with a server in its state: the fitting action first. */
import type { Server } from '../api/types'
import type { Operation, Row } from './row.svelte'
import type { StateWord } from './status'

export type MainAction = Operation | 'review' | 'edit' | 'login'

const MAIN: Record<StateWord, MainAction | undefined> = {
  pending: 'review',
  disabled: 'enable',
  stopped: 'start',
  starting: 'stop',
  stopping: undefined,
  connected: 'restart',
  degraded: 'restart',
  reconnecting: 'reconnect',
  unauthorized: 'reconnect',
  error: 'reconnect',
  failed: 'restart',
  crashed: 'restart',
}

export function mainAction(info: Server, word: StateWord, login?: Row['login']): MainAction | undefined {
  if (login) return 'login'
  return isRejected(info) ? 'edit' : MAIN[word]
}

/** Whether the entry of the server cannot be used. Mainstay makes no attempt before the entry is corrected. */
export function isRejected(info: Server): boolean {
  return info.status === 'error' && info.nextAction === 'correct_entry'
}

/** Operations that can be asked for, in the order of the menu. */
export function operationsFor(info: Server, word: StateWord): Operation[] {
  if (word === 'pending') return []
  if (word === 'disabled') return ['enable']
  if (word === 'stopped') return ['start', 'disable']
  if (word === 'stopping') return ['restart', 'disable']
  return info.connected ? ['restart', 'reconnect', 'stop', 'disable'] : ['reconnect', 'restart', 'stop', 'disable']
}

/** Operations on several servers at once. */
export const BULK: readonly Operation[] = ['start', 'stop', 'restart', 'reconnect', 'enable', 'disable']

/** Whether the change belongs in the file: a server that is in memory only stays there. */
export function isKept(operation: Operation, info: Server): boolean {
  return (operation === 'enable' || operation === 'disable') && info.ephemeral !== true
}

/** Does `work` for each item, a few at a time. */
export async function eachOf<T>(items: readonly T[], width: number, work: (item: T) => Promise<void>): Promise<void> {
  const rest = [...items]
  const lane = async (): Promise<void> => {
    for (let item = rest.shift(); item !== undefined; item = rest.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, lane))
}
