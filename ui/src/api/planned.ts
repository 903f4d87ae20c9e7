/** Wire types of routes that docs/openapi.json does not have yet, by hand. */

/* Calls, overview */

/** `GET /api/history?since=&until=&limit=`: the first transition of a server is the state in force at `since`. */
export interface History {
  servers: ServerHistory[]
  daemon: { at: string; event: 'started' | 'stopped' }[]
  truncated: boolean
}

export interface ServerHistory {
  server: string
  /** The oldest first. */
  transitions: Transition[]
}

export interface Transition {
  at: string
  status: string
  /** Connected, and not well. */
  degraded?: boolean | null
  reason?: string | null
  exitCode?: number | null
  exitSignal?: number | null
  attempt?: number | null
  nextRetryMs?: number | null
  stderr?: string[] | null
}
