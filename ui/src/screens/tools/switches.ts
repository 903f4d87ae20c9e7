/** Tools that are switched off: for all clients by the entry of their server, for single ones by switches. */
import { isMembers, type Members } from '../../forms/schema'
import type { Switches } from '../../api/types'

/** Names that an entry may have for its lists: docs/configuration.md. */
const DISABLED = ['disabledTools', 'disabled_tools', 'excludeTools', 'suppressedTools'] as const
const ALLOWED = ['allowedTools', 'allowed_tools', 'enabledTools', 'enabled_tools', 'includeTools', 'tools'] as const

function names(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((name) => typeof name === 'string') : []
}

/** The tools that an entry names as switched off. */
export function disabledOf(entry: unknown): string[] {
  return isMembers(entry) ? [...new Set(DISABLED.flatMap((key) => names(entry[key])))] : []
}

/** Whether an entry lets a tool be listed. */
export function isAvailable(entry: unknown, tool: string): boolean {
  if (!isMembers(entry)) return true
  if (disabledOf(entry).includes(tool)) return false
  return ALLOWED.every((key) => !Array.isArray(entry[key]) || names(entry[key]).some((name) => name === tool || name === '*'))
}

/** The entry with a tool switched on or off for all. */
export function withTool(entry: Members, tool: string, isOn: boolean): Members {
  const next: Members = { ...entry }
  if (!isOn) {
    const key = DISABLED.find((candidate) => Array.isArray(entry[candidate])) ?? DISABLED[0]
    next[key] = [...new Set([...names(entry[key]), tool])]
    return next
  }
  for (const key of DISABLED) {
    if (!Array.isArray(entry[key])) continue
    const left = names(entry[key]).filter((name) => name !== tool)
    if (left.length > 0) next[key] = left
    else delete next[key]
  }
  for (const key of ALLOWED) {
    const list = names(entry[key])
    if (Array.isArray(entry[key]) && !list.some((name) => name === tool || name === '*')) next[key] = [...list, tool]
  }
  return next
}

/** The entry with several tools switched. */
export function withTools(entry: Members, tools: readonly string[], isOn: boolean): Members {
  return tools.reduce((next, tool) => withTool(next, tool, isOn), entry)
}

/** One client for which a tool is off. */
export interface OffFor {
  client: string
  /** Its whole server is off. */
  isServer: boolean
}

/** By `server/tool`, and by server. */
export function offFor(switches: Switches | undefined, server: string, tool: string): OffFor[] {
  const found: OffFor[] = []
  for (const [client, off] of Object.entries(switches?.clients ?? {})) {
    if (off.tools.includes(`${server}/${tool}`)) found.push({ client, isServer: false })
    else if (off.servers.includes(server)) found.push({ client, isServer: true })
  }
  return found
}

/** How many clients a tool is off for, for many tools at once. */
export function countsOf(switches: Switches | undefined): (server: string, tool: string) => number {
  const servers = new Map<string, Set<string>>()
  const tools = new Map<string, Set<string>>()
  const add = (map: Map<string, Set<string>>, key: string, client: string): void => {
    const set = map.get(key) ?? new Set()
    map.set(key, set.add(client))
  }
  for (const [client, off] of Object.entries(switches?.clients ?? {})) {
    for (const server of off.servers) add(servers, server, client)
    for (const tool of off.tools) add(tools, tool, client)
  }
  return (server, tool) => new Set([...(servers.get(server) ?? []), ...(tools.get(`${server}/${tool}`) ?? [])]).size
}
