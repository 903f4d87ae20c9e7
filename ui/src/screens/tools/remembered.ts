/**
 * What tools were before they were switched off: Mainstay does not list them then. Kept by this browser, so that
 * they keep their descriptions and their places. Texts of servers, shown as text.
 */
import { readJson } from '../../lib/json'

export interface Remembered {
  title: string
  description: string
  /** The tool that stood before it; empty for the first. */
  after: string
  /** Of its arguments, unless it is long. */
  schema?: unknown
}

const KEY = 'mainstay.tools-off'
const MAX = 1000
const MAX_TEXT = 500
const MAX_SCHEMA = 3000

type All = Record<string, Remembered>

function isRemembered(value: unknown): value is Remembered {
  const { title, description, after } = (value ?? {}) as Partial<Record<keyof Remembered, unknown>>
  return [title, description, after].every((field) => typeof field === 'string')
}

function readAll(): All {
  try {
    const all: unknown = readJson(localStorage.getItem(KEY) ?? '{}')
    return typeof all === 'object' && all !== null ? Object.fromEntries(Object.entries(all).filter(([, tools]) => isRemembered(tools))) : {}
  } catch {
    return {}
  }
}

export function remember(server: string, tools: readonly ({ name: string } & Remembered)[]): void {
  const added = tools.map(({ name, title, description, after, schema }) => {
    const isShort = (JSON.stringify(schema) ?? '').length <= MAX_SCHEMA
    return [`${server}/${name}`, { title, description: description.slice(0, MAX_TEXT), after, schema: isShort ? schema : undefined }] as const
  })
  const names = new Set<string>(added.map(([name]) => name))
  const kept = Object.entries(readAll()).filter(([name]) => !names.has(name))
  try {
    localStorage.setItem(KEY, JSON.stringify(Object.fromEntries([...kept, ...added].slice(-MAX))))
  } catch {
    // What cannot be kept is not known after a reload.
  }
}

/** What is remembered of all tools, by `server/tool`. */
export function remembered(): (server: string, tool: string) => Remembered | undefined {
  const all = readAll()
  return (server, tool) => (Object.hasOwn(all, `${server}/${tool}`) ? all[`${server}/${tool}`] : undefined)
}

/** Puts tools that are off behind those that they stood behind; where that is not known, at the end of their server's. */
export function placed<T extends { server: string; name: string }>(on: readonly T[], off: readonly (T & { after?: string | undefined })[]): T[] {
  const servers = new Map<string, T[]>()
  for (const item of on) {
    const list = servers.get(item.server)
    if (list) list.push(item)
    else servers.set(item.server, [item])
  }
  // One may stand behind another one that is off.
  let waiting = [...off]
  for (let before = -1; waiting.length > 0 && waiting.length !== before; ) {
    before = waiting.length
    waiting = waiting.filter((item) => !place(servers, item))
  }
  for (const item of waiting) servers.set(item.server, [...(servers.get(item.server) ?? []), item])
  return [...servers.values()].flat()
}

function place<T extends { server: string; name: string }>(servers: Map<string, T[]>, item: T & { after?: string | undefined }): boolean {
  const list = servers.get(item.server)
  if (!list || item.after === undefined) return false
  const at = item.after === '' ? -1 : list.findIndex((other) => other.name === item.after)
  if (at < 0 && item.after !== '') return false
  list.splice(at + 1, 0, item)
  return true
}
