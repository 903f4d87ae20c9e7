/**
 * Answers of routes that the page uses and that docs/openapi.json may not describe yet. One block for each
 * screen; a block goes when the generated types have its shapes.
 */
import type { components } from './schema'

type Schemas = components['schemas']

/* Calls, overview */

/** `GET /api/history?since=&until=&limit=` */
export interface History {
  servers: ServerHistory[]
  /** `lost`: it ended without a word at this time or later. What servers did while it was gone is not known. */
  daemon: { at: string; event: string }[]
  truncated: boolean
}

export interface ServerHistory {
  server: string
  /** The oldest first. What was so when the period began comes first, at an earlier time. */
  transitions: Transition[]
  /** Whether older ones of the period were left out. */
  truncated?: boolean
}

export interface Transition {
  at: string
  status: string
  /** Connected, and not well. */
  degraded?: boolean | null
  reason?: string | null
  exitCode?: number | null
  exitSignal?: number | null
  /** The number of the attempt that follows. */
  attempt?: number | null
  nextRetryMs?: number | null
  stderr?: string[] | null
}

// Tools

/** `GET /api/mcp-tools`, with what a server says beside it. */
export type Tool = Schemas['Tool'] & {
  title?: string
  /** Hints of the server about what the tool does. */
  annotations?: { title?: string; readOnlyHint?: boolean; destructiveHint?: boolean; idempotentHint?: boolean; openWorldHint?: boolean }
  output_schema?: Record<string, unknown>
}

// Adding servers: screens/servers/entry.

/** `POST /api/import/preview` */
export interface ImportPreview {
  servers: PreviewedServer[]
  format?: string
  notes?: string[]
}
export interface PreviewedServer {
  name: string
  entry: Record<string, unknown>
  notes?: string[]
  exists: boolean
}



/** `POST /api/servers/try` */
export interface Trial {
  success: boolean
  name: string
  shown?: TrialShown
  handshakeMs?: number | null
  server?: { name: string; version?: string } | null
  protocolVersion?: string | null
  tools?: { name: string; description?: string | null }[]
  resourceCount?: number
  promptCount?: number
  error?: string | null
  nextStep?: string | null
  stderr?: string[]
  warnings?: string[]
}
export interface TrialShown {
  command?: string[]
  cwd?: string | null
  url?: string | null
  env?: string[]
  headers?: string[]
}
