/** A list of the API that is read again when servers say that it changed. */
import { untrack } from 'svelte'
import { api, type Query } from '../../api/client'
import { fleet } from '../../lib/fleet.svelte'

/** Lists are read again at most this often, and a long one, which takes long, less often than a short one. */
const REST_MS = 2000
const REST_SHARE = 20

export class List<T> {
  /** `undefined` until it was read. */
  value = $state.raw<T | undefined>(undefined)
  failure = $state.raw<unknown>(undefined)
  #path: () => string
  #query: () => Query
  #version = $state(0)

  /** Follows the list while the component that makes it is there. */
  constructor(path: () => string, query: () => Query = () => ({})) {
    this.#path = path
    this.#query = query
    let readAt = 0
    let tookMs = 0
    $effect(() => {
      void fleet.listsVersion
      void this.#version
      if (fleet.connection === 'lost') return
      const [at, asked] = [this.#path(), this.#query()]
      const end = new AbortController()
      const wait = untrack(() => (this.value === undefined || this.failure ? 0 : Math.max(0, readAt + Math.max(REST_MS, tookMs * REST_SHARE) - Date.now())))
      const read = async (): Promise<void> => {
        // A page that nobody sees reads nothing.
        if (document.hidden) return
        document.removeEventListener('visibilitychange', read)
        const begun = Date.now()
        await this.#read(at, asked, end.signal)
        readAt = Date.now()
        tookMs = readAt - begun
      }
      const timer = setTimeout(() => {
        document.addEventListener('visibilitychange', read)
        void read()
      }, wait)
      return () => {
        clearTimeout(timer)
        document.removeEventListener('visibilitychange', read)
        end.abort()
      }
    })
  }

  again(): void {
    this.#version += 1
  }

  async #read(at: string, query: Query, signal: AbortSignal): Promise<void> {
    try {
      this.value = await api.get<T>(at, query, signal)
      this.failure = undefined
    } catch (error) {
      if (!signal.aborted) this.failure = error
    }
  }
}
