/** What the list of servers shows, in which order. Pure: the rows are read, nothing is kept. */
import type { RecentCalls, ServerFigures, Server } from '../../api/types'
import { GROUPS, type Group, type ServerLook } from '../../lib/status'
import { texts } from '../../texts'
import { lastWords } from './evidence'

/** What the list reads of a row. */
export interface Listed {
  readonly name: string
  readonly info: Server
  readonly look: ServerLook
  readonly figures: ServerFigures | undefined
}

export const SORTS = ['order', 'name', 'calls', 'errors', 'p95', 'memory'] as const
export type Sort = (typeof SORTS)[number]

/** A line of the list: the heading of a group, or a server. */
export type Line<T extends Listed> = Group | T

export function isGroup<T extends Listed>(line: Line<T>): line is Group {
  return typeof line === 'string'
}

/** The text that the filter looks through. */
export function haystack(row: Listed): string {
  const { info, look } = row
  return [row.name, texts.state[look.word], texts.stateNote[look.word], info.command, info.url, info.lastError, lastWords(info), info.transport]
    .filter(Boolean)
    .join('\n')
    .toLowerCase()
}

export function fits(row: Listed, words: readonly string[]): boolean {
  if (words.length === 0) return true
  const text = haystack(row)
  return words.every((word) => text.includes(word))
}

export function wordsOf(filter: string): string[] {
  return filter.toLowerCase().split(/\s+/).filter(Boolean)
}

export function countGroups(rows: readonly Listed[]): Record<Group, number> {
  const counts: Record<Group, number> = { needs: 0, degraded: 0, coming: 0, well: 0, off: 0 }
  for (const row of rows) counts[row.look.group] += 1
  return counts
}

/** Servers that wait for approval come first; the others keep the order they came in. */
function rank(row: Listed): number {
  return row.look.word === 'pending' ? 0 : 1
}

const MINUTE_MS = 60_000

/** Whether figures are those of a whole minute; where the server is not there for so long, they are of all its time. */
export function isWholeMinute({ spanMs }: RecentCalls): boolean {
  return spanMs >= MINUTE_MS
}

/** Calls of the last minute, as a whole number: the span is up to five seconds longer. In less than a minute, the calls so far. */
export function callsAMinute({ calls, spanMs }: RecentCalls): number {
  return Math.round((calls * MINUTE_MS) / Math.max(spanMs, MINUTE_MS))
}

const MEASURES: Record<Exclude<Sort, 'order' | 'name'>, (figures: ServerFigures) => number> = {
  calls: (figures) => callsAMinute(figures.recent),
  errors: (figures) => figures.recent.errors * 1e6 + figures.errors,
  p95: (figures) => figures.recent.p95Ms ?? -1,
  memory: (figures) => figures.memoryBytes ?? -1,
}

/** Orders the servers of one group. Equal ones stay in the order of the configuration. */
export function sorted<T extends Listed>(rows: readonly T[], sort: Sort): T[] {
  const list = [...rows]
  if (sort === 'order') return list.sort((a, b) => rank(a) - rank(b))
  if (sort === 'name') return list.sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name, 'en', { numeric: true }))
  const measure = MEASURES[sort]
  const value = new Map(list.map((row) => [row, row.figures ? measure(row.figures) : -2]))
  return list.sort((a, b) => rank(a) - rank(b) || value.get(b)! - value.get(a)!)
}

/** The lines of the list: each group that has servers, with its heading. */
export function lines<T extends Listed>(rows: readonly T[], sort: Sort): Line<T>[] {
  const members: Record<Group, T[]> = { needs: [], degraded: [], coming: [], well: [], off: [] }
  for (const row of rows) members[row.look.group].push(row)
  return GROUPS.flatMap((group): Line<T>[] => (members[group].length > 0 ? [group, ...sorted(members[group], sort)] : []))
}

/** The list before if the new one is the same: what depends on it is then not drawn again. */
export function unchanged<T>(before: readonly T[], now: readonly T[]): readonly T[] {
  return before.length === now.length && now.every((item, index) => item === before[index]) ? before : now
}
