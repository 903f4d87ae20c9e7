export interface Sessions {
  sessions: {
    id: string
    client?: { name: string; version: string }
    protocolVersion: string
    transport: string
    server?: string
    openedAt: string
    lastSeenAt?: string
  }[]
}
