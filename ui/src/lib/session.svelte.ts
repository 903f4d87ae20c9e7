/** Whether this browser is signed in: docs/access.md, "The web page". */
import { api, ApiError, setCsrfToken, whenSignedOut } from '../api/client'

interface SessionAnswer {
  csrfToken: string
  expiresAt: string
  version?: string
}

class Session {
  /** `unknown` until the daemon was asked. */
  state = $state<'unknown' | 'in' | 'out'>('unknown')
  expiresAt = $state<string | undefined>(undefined)

  constructor() {
    whenSignedOut(() => {
      this.state = 'out'
      setCsrfToken('')
    })
  }

  /** Asks whether the cookie of this browser opens the API. Throws where nobody answers. */
  async check(): Promise<void> {
    try {
      this.enter(await api.get<SessionAnswer>('/api/session'))
    } catch (error) {
      if (!(error instanceof ApiError) || error.status === 0) throw error
      this.state = 'out'
    }
  }

  /** Signs in with a one-time code of `mainstay ui`, or with the control token. */
  async signIn(proof: { code: string } | { token: string }): Promise<void> {
    this.enter(await api.post<SessionAnswer>('/api/session', proof))
  }

  async signOut(): Promise<void> {
    await api.delete('/api/session')
    setCsrfToken('')
    this.state = 'out'
  }

  private enter(answer: SessionAnswer): void {
    setCsrfToken(answer.csrfToken)
    this.expiresAt = answer.expiresAt
    this.state = 'in'
  }
}

export const session = new Session()
