/** A list of the API that is read again when servers say that it changed. */
import { untrack } from 'svelte'
import { api, type Query } from '../api/client'
import { fleet } from './fleet.svelte'

/** Lists are read again at most this often, and a long one, which takes long, less often than a short one. */
const REST_MS = 2000
const REST_SHARE = 20

export class List<T> {
  /** The list; `undefined` until it was read. */
  value = $state.raw<T | undefined>(undefined)
  failure = $state.raw<unknown>(undefined)
  #version = $state(0)

  /**
   * Follows the list while the component that makes it is there and `path` answers one. What was read stays, and is
   * read again only once it may have changed.
   */
  constructor(path: () => string | undefined, query: () => Query = () => ({})) {
    /** Identifies the list in `value`: its address, its parameters and the version of servers' lists. */
    let lastKey = ''
    let readAt = 0
    let tookMs = 0
    $effect(() => {
      if (fleet.isLost) {
        lastKey = ''
        return
      }
      const at = path()
      if (at === undefined) return
      const parameters = query()
      const key = $derived(JSON.stringify([at, parameters, this.#version, fleet.listsVersion]))
      const end = new AbortController()
      let timer: ReturnType<typeof setTimeout> | undefined
      let isReading = false

      /** Reads after the pause. A running request is finished first; later changes are read after it. */
      const next = (): void => {
        // A hidden page reads nothing.
        if (timer !== undefined || isReading || document.hidden || lastKey === key) return
        const isFirst = this.value === undefined || this.failure !== undefined
        timer = setTimeout(() => void read(), isFirst ? 0 : Math.max(0, readAt + Math.max(REST_MS, tookMs * REST_SHARE) - Date.now()))
      }
      const read = async (): Promise<void> => {
        timer = undefined
        if (document.hidden) return
        const begun = Date.now()
        const reading = key
        isReading = true
        await this.#read(at, parameters, end.signal)
        isReading = false
        if (end.signal.aborted) return
        lastKey = this.failure === undefined ? reading : ''
        readAt = Date.now()
        tookMs = readAt - begun
        if (key !== reading) next()
      }
      $effect(() => {
        void key
        untrack(next)
      })
      document.addEventListener('visibilitychange', next)
      return () => {
        clearTimeout(timer)
        document.removeEventListener('visibilitychange', next)
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
