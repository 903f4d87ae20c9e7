/** Server-sent events of a GET, as `EventSource` reads them, which cannot send the page key. */
import { errorOf, events, send } from './client'

/** The pause before an ended stream is requested again, in milliseconds. */
const RETRY_MS = 2000

interface Message {
  data: string
  lastEventId: string
}

type Listener = (message: Message) => void

export class EventStream {
  #listeners = new Map<string, Listener>()
  #abort = new AbortController()
  #lastId = ''

  /** Begins to read. With `isKept` an ended stream is requested again. */
  constructor(path: string, isKept: boolean) {
    void this.#read(path, isKept)
  }

  /** Listens for `open`, `error` and the types of events. */
  addEventListener(type: string, listener: Listener): void {
    this.#listeners.set(type, listener)
  }

  close(): void {
    this.#listeners.clear()
    this.#abort.abort()
  }

  async #read(path: string, isKept: boolean): Promise<void> {
    const { signal } = this.#abort
    do {
      try {
        const headers: Record<string, string> = this.#lastId ? { 'Last-Event-ID': this.#lastId } : {}
        const response = await send('GET', path, { signal, headers }, 'text/event-stream')
        if (!response.ok || !response.body) throw await errorOf(response)
        this.#tell('open')
        for await (const event of events(response.body)) {
          this.#lastId = event.id
          this.#tell(event.event, event.data)
        }
      } catch {
        // The listeners get `error` below, and ask for the reason.
      }
      this.#tell('error')
      if (isKept) await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
    } while (isKept && !signal.aborted)
  }

  #tell(type: string, data = ''): void {
    this.#listeners.get(type)?.({ data, lastEventId: this.#lastId })
  }
}
