/** Whether the file is in force. The daemon compares the two; events tell when that changes. */
import { api, ApiError } from '../../api/client'
import type { Reloaded } from '../../api/types'

class Force {
  /** Why the file cannot be used; `undefined` where it can. */
  rejected = $state<string | undefined>(undefined)
  /** Whether the file can be used and is not what is in force. */
  differs = $state(false)
  /** Settings that the file has, and that wait for the next start. */
  waiting = $state.raw<string[]>([])

  async look(): Promise<void> {
    try {
      const { plan } = await api.post<Reloaded>('/api/reload', { dryRun: true })
      this.rejected = undefined
      const isNow = plan.settings.some((setting) => setting.takesEffect === 'now')
      this.differs = plan.reordered || isNow || plan.servers.some((server) => server.action !== 'unchanged')
      this.waiting = plan.settings.filter((setting) => setting.takesEffect === 'at_restart').map((setting) => setting.key)
    } catch (error) {
      this.differs = false
      this.waiting = []
      // Without a file to be read again there is nothing to compare.
      this.rejected = error instanceof ApiError && error.code === 'invalid_config' ? error.message : undefined
    }
  }
}

export const force = new Force()
