/** Wire types of routes that docs/openapi.json does not have yet, by hand. */

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
