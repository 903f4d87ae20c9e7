/** Types of routes, or members of answers, that the API document does not have yet. One block a screen. */
import type { components } from './schema'

type Schemas = components['schemas']

// Tools

/** `GET /api/mcp-tools`, with what a server says beside it. */
export type Tool = Schemas['Tool'] & {
  title?: string
  /** Hints of the server about what the tool does. */
  annotations?: { title?: string; readOnlyHint?: boolean; destructiveHint?: boolean; idempotentHint?: boolean; openWorldHint?: boolean }
  output_schema?: Record<string, unknown>
}
