import type { Tool } from '../../api/types'

/** The title of a tool, which stands in one of two places; empty where there is none. Servers may put anything there. */
export function titleOf(tool: Tool | undefined): string {
  const title: unknown = tool?.title ?? tool?.annotations?.title
  return typeof title === 'string' ? title : ''
}
