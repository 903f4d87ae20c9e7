/** Short notices about what happened elsewhere on the page. Errors of an action stand beside the action. */
export interface Link {
  href: string
  text: string
}

/** A button that does something about it. */
export interface Offer {
  text: string
  run: () => void
}

export interface Toast {
  id: number
  text: string
  tone: 'well' | 'bad' | 'off'
  /** Where there is more about it. */
  link?: Link | undefined
  offer?: Offer
}

/** Older ones go first, but not the one with an offer. */
const MAX_TOASTS = 4
const SHOWN_MS = 6000
const OFFERED_MS = 60_000

class Toasts {
  list = $state<Toast[]>([])
  private last = 0
  #timers = new Map<number, ReturnType<typeof setTimeout>>()

  show(text: string, tone: Toast['tone'] = 'off', link?: Link): number {
    const id = ++this.last
    if (this.list.length >= MAX_TOASTS) this.dismiss(this.list.find((toast) => !toast.offer)?.id ?? 0)
    this.list = [...this.list, { id, text, tone, link }]
    // There is time to reach its link.
    this.#end(id, tone === 'bad' || link ? SHOWN_MS * 2 : SHOWN_MS)
    return id
  }

  /** Gives a toast a button, and the time to see that it is wanted. */
  offer(id: number, offer: Offer): void {
    this.list = this.list.map((toast) => (toast.id === id ? { ...toast, offer } : toast))
    this.#end(id, OFFERED_MS)
  }

  #end(id: number, after: number): void {
    clearTimeout(this.#timers.get(id))
    this.#timers.set(id, setTimeout(() => this.dismiss(id), after))
  }

  dismiss(id: number): void {
    clearTimeout(this.#timers.get(id))
    this.#timers.delete(id)
    this.list = this.list.filter((toast) => toast.id !== id)
  }
}

export const toasts = new Toasts()
