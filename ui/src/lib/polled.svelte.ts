/**
 * Something of the API that is read now, every so often while the page is seen, and when it is seen again. What
 * `read` uses at its start makes it read anew. It lives as long as the component that makes it.
 */
export class Polled<T> {
  /** `undefined` until it was read. */
  value = $state.raw<T | undefined>(undefined)
  failure = $state.raw<unknown>(undefined)
  #version = $state(0)

  constructor(everyMs: number, read: (signal: AbortSignal) => Promise<T>) {
    $effect(() => {
      void this.#version
      const end = new AbortController()
      const once = async (): Promise<void> => {
        if (document.hidden) return
        try {
          this.value = await read(end.signal)
          this.failure = undefined
        } catch (error) {
          if (!end.signal.aborted) this.failure = error
        }
      }
      void once()
      const timer = setInterval(() => void once(), everyMs)
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
