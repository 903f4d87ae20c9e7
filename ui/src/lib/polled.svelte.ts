import { untrack } from 'svelte'
import { fleet } from './fleet.svelte'

/**
 * Something of the API that is read now, every so often while the page is seen, and when it is seen again or the
 * daemon is back; with 0 at these times alone. It is read anew when what `key` uses changes. It lives as long as the
 * component that makes it.
 */
export class Polled<T> {
  /** `undefined` until it was read. */
  value = $state.raw<T | undefined>(undefined)
  failure = $state.raw<unknown>(undefined)
  #version = $state(0)

  constructor(everyMs: number, read: (signal: AbortSignal) => Promise<T>, key: () => unknown = () => undefined) {
    $effect(() => {
      void this.#version
      // Before anything returns: what an effect does not use does not run it again.
      key()
      // The frame of the page says that the daemon is gone.
      if (fleet.isLost) return
      const end = new AbortController()
      let isReading = false
      const once = async (): Promise<void> => {
        if (document.hidden || isReading) return
        isReading = true
        try {
          this.value = await read(end.signal)
          this.failure = undefined
        } catch (error) {
          if (!end.signal.aborted) this.failure = error
        } finally {
          isReading = false
        }
      }
      untrack(() => void once())
      const timer = everyMs ? setInterval(() => void once(), everyMs) : undefined
      document.addEventListener('visibilitychange', once)
      return () => {
        end.abort()
        clearInterval(timer)
        document.removeEventListener('visibilitychange', once)
      }
    })
  }

  again(): void {
    this.#version += 1
  }
}
