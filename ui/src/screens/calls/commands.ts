/** A recorded call as something that can be pasted: into a shell, and with curl. */
import type { CallRecord } from '../../api/types'
import { curlOf, isPastable, quoted } from '../../lib/commands'

type Sizes = Pick<CallRecord, 'arguments_cid' | 'arguments_bytes'>
type Called = Pick<CallRecord, 'method' | 'tool'> & Sizes & { server?: string | null }

/** A record comes with what is no longer than this. */
const MAX_WHOLE = 1024 * 1024
/** `{}` */
const EMPTY = 2

function has(args: unknown): args is Record<string, unknown> {
  return typeof args === 'object' && args !== null && Object.keys(args).length > 0
}

/** Whether the call had arguments that its record does not come with. */
export function lacksArguments(call: Sizes, args: unknown): boolean {
  return (args === null || args === undefined) && (Boolean(call.arguments_cid) || (call.arguments_bytes ?? 0) > EMPTY)
}

/** Whether arguments or a result that a record does not come with can be read by their identifier. */
export function isKeptApart(cid: string | null | undefined, size: number | null | undefined): boolean {
  return Boolean(cid) && (size ?? Infinity) > MAX_WHOLE
}

/** The command that does the same; `undefined` where there is none that can be pasted. */
export function commandOf(call: Called, args: unknown): string | undefined {
  const command = written(call, args)
  return command !== undefined && isPastable(command) ? command : undefined
}

function written(call: Called, args: unknown): string | undefined {
  const { server, tool, method } = call
  if (!server) return undefined
  if (method === 'resources/read') return `mainstay read ${quoted(server)} ${quoted(tool)}`
  if (lacksArguments(call, args)) return undefined
  const name = quoted(`${server}/${tool}`)
  if (method === 'prompts/get') {
    const pairs = has(args) ? Object.entries(args).map(([key, value]) => ` ${quoted(`${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`)}`) : []
    return `mainstay prompts get ${name}${pairs.join('')}`
  }
  if (method !== 'tools/call') return undefined
  return `mainstay call ${name}${has(args) ? ` --args ${quoted(JSON.stringify(args))}` : ''}`
}

/** The request to the REST API that does the same, as curl. */
export function requestOf(call: Called, args: unknown, origin: string): string | undefined {
  const { server, tool, method } = call
  if (!server || (method !== 'resources/read' && lacksArguments(call, args))) return undefined
  const known: Record<string, [string, unknown]> = {
    'tools/call': ['/api/mcp-tools/call', { tool: `${server}/${tool}`, arguments: args ?? {} }],
    'prompts/get': ['/api/mcp-prompts/get', { prompt: `${server}/${tool}`, arguments: args ?? {} }],
    'resources/read': ['/api/resources/read', { server, uri: tool }],
  }
  const route = known[method]
  if (!route) return undefined
  return curlOf(route[0], route[1], origin)
}
