/** Shapes of routes that are not in the generated types yet. */

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

/** `GET /api/client-files` */
export interface ClientFiles {
  clients: ClientFile[]
}
export interface ClientFile {
  id: string
  title: string
  installed: boolean
  file?: string | null
  servers: string[]
  /** Whether it uses Mainstay already. */
  mainstay: boolean
  error?: string | null
}

/** `POST /api/client-files/import` */
export interface ClientImport {
  added: string[]
  skipped: { name: string; reason: string }[]
  notes?: string[]
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
