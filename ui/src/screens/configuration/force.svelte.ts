/** Whether the file is in force. The daemon compares the two; events tell when that changes. */
import { api, ApiError } from '../../api/client'
import type { Reloaded } from '../../api/planned'

class Force {
  /** Why the file cannot be used; `undefined` where it can. */
  rejected = $state<string | undefined>(undefined)
  /** Whether the file can be used and is not what is in force. */
  differs = $state(false)

  async look(): Promise<void> {
    try {
      const { plan } = await api.post<Reloaded>('/api/reload', { dryRun: true })
      this.rejected = undefined
      this.differs = plan.reordered || plan.settings.length > 0 || plan.servers.some((server) => server.action !== 'unchanged')
    } catch (error) {
      this.differs = false
      // Without a file to be read again there is nothing to compare.
      this.rejected = error instanceof ApiError && error.code === 'invalid_config' ? error.message : undefined
    }
  }
}

export const force = new Force()
