/** Whether this browser is signed in: docs/access.md, "The web page". */
import { api, ApiError, whenSignedOut } from '../api/client'
import type { About } from '../api/types'
import * as pageKey from './pageKey'

interface SessionAnswer {
  expiresAt: string
}

class Session {
  /** `unknown` until the daemon was asked. */
  state = $state<'unknown' | 'in' | 'out'>('unknown')
  expiresAt = $state<string | undefined>(undefined)
  /** Whether the page shows the tools of servers: the setting `ui.externalTools`. */
  externalTools = $state(true)

  constructor() {
    whenSignedOut(() => {
      this.leave()
    })
  }

  /** Asks whether the cookie of this browser opens the API. Throws where nobody answers. */
  async check(): Promise<void> {
    try {
      // Both at once: what is hidden must not be shown first.
      const [answer] = await Promise.all([api.get<SessionAnswer>('/api/session'), this.readSettings()])
      this.enter(answer)
    } catch (error) {
      if (!(error instanceof ApiError) || error.status === 0) throw error
      this.state = 'out'
    }
  }

  /** Signs in with a one-time code of `mainstay ui`, or with the control token. */
  async signIn(proof: { code: string } | { token: string }): Promise<void> {
    const answer = await api.post<SessionAnswer & { pageKey: string }>('/api/session', proof)
    pageKey.set(answer.pageKey)
    await this.readSettings()
    this.enter(answer)
  }

  /** Reads what the configuration says of this page. */
  async readSettings(): Promise<void> {
    try {
      this.externalTools = (await api.get<About>('/api/about')).externalTools !== false
    } catch {
      // Signed out, or out of reach: the request beside this one says so.
    }
  }

  async signOut(): Promise<void> {
    await api.delete('/api/session')
    this.leave()
  }

  private leave(): void {
    pageKey.forget()
    this.state = 'out'
  }

  private enter(answer: SessionAnswer): void {
    this.expiresAt = answer.expiresAt
    this.state = 'in'
  }
}

export const session = new Session()
