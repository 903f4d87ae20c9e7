/**
 * Answers of routes that the page uses and that docs/openapi.json may not describe yet. One block for each
 * screen; a block goes when the generated types have its shapes.
 */
import { ApiError } from './client'
import type { components } from './schema'

type Schemas = components['schemas']

/** Whether the daemon is one that does not have the route. */
export function isMissing(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404 && error.code === 'not_found'
}

// Configuration

export type PlanAction = 'added' | 'added_idle' | 'removed' | 'started' | 'stopped' | 'relaunched' | 'changed' | 'unchanged'

/** The member `plan` of `POST /api/reload`, `PUT /api/config` and `POST /api/config/check`. */
export interface Plan {
  servers: { name: string; action: PlanAction; keys: string[] }[]
  reordered: boolean
  settings: { key: string; takesEffect: 'now' | 'at_restart' }[]
}

export interface Finding {
  severity: 'error' | 'warning'
  path?: string | null
  /** From 1. */
  line?: number | null
  column?: number | null
  message: string
  hint?: string | null
}

/** `POST /api/config/check` */
export interface ConfigCheck {
  valid: boolean
  findings: Finding[]
  plan?: Plan | null
  summary?: string | null
}

/** `GET /api/config/text` */
export interface ConfigText {
  text: string
  path?: string | null
  digest: string
}

/** `PUT /api/config/text` and `PUT /api/config` */
export interface ConfigSaved {
  success: boolean
  summary: string
  plan?: Plan
  digest?: string
}

/** `POST /api/reload` */
export interface Reloaded {
  applied: boolean
  summary: string
  plan: Plan
}

/** `GET /api/profiles` */
export interface Profiles {
  profiles: ProfileInfo[]
}

export interface ProfileInfo {
  name: string
  /** Of its MCP address. */
  path: string
  default?: boolean
  naming?: string
  /** Names of the servers that it shows. */
  servers?: string[]
  /** How many tools it shows. */
  tools?: number
  builtin?: boolean
  entry?: unknown
}

// Clients

/** `GET /api/sessions` */
export interface Sessions {
  sessions: ClientSession[]
  total: number
  truncated: boolean
}

export interface ClientSession {
  id: string
  client?: { name?: string | null; version?: string | null } | null
  protocolVersion?: string | null
  transport?: string | null
  door?: string | null
  profile?: string | null
  server?: string | null
  /** The name of the client's token. */
  principal?: string | null
  openedAt?: string | null
  lastSeenAt?: string | null
  streams?: number | null
  callsInFlight?: number | null
}

/** `GET /api/client-files` */
export interface ClientFiles {
  clients: ClientFile[]
}

export interface ClientFile {
  id: string
  title: string
  installed: boolean
  file?: string | null
  /** Names of the servers that the file has. */
  servers: string[]
  /** Whether the file has the client use this Mainstay. */
  mainstay: boolean
  error?: string | null
  snippet?: { language: string; text: string; where?: string | null } | null
}

/** `POST /api/client-files/import` */
export interface ClientImport {
  added: string[]
  skipped: { name: string; reason: string }[]
  notes?: string[]
}

// Settings

/** `GET /api/about` */
export interface About {
  version: string
  pid?: number
  startedAt?: string
  uptimeMs?: number
  stateDirectory?: string | null
  configuration?: { path?: string | null; writable?: boolean } | null
  listen?: string[]
  platform?: string
  revisions?: string[]
  journal?: JournalHealth | null
  memoryBytes?: number | null
  warnings?: string[]
}

export interface JournalHealth {
  enabled: boolean
  durability?: string
  path?: string | null
  bytes?: number
  maxBytes?: number
  records?: number
  oldest?: string | null
  lost?: number
  error?: string | null
}
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
export type Tool = Omit<Schemas['Tool'], 'annotations' | 'output_schema'> & {
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
