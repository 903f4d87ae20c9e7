/** Short notices about what happened elsewhere on the page. Errors of an action stand beside the action. */
export interface Link {
  href: string
  text: string
}

export interface Toast {
  id: number
  text: string
  tone: 'well' | 'bad' | 'off'
  /** Where there is more about it. */
  link?: Link | undefined
}

/** Older ones go first. */
const MAX_TOASTS = 4
const SHOWN_MS = 6000

class Toasts {
  list = $state<Toast[]>([])
  private last = 0

  show(text: string, tone: Toast['tone'] = 'off', link?: Link): void {
    const id = ++this.last
    this.list = [...this.list, { id, text, tone, link }].slice(-MAX_TOASTS)
    // There is time to reach its link.
    setTimeout(() => this.dismiss(id), tone === 'bad' || link ? SHOWN_MS * 2 : SHOWN_MS)
  }

  dismiss(id: number): void {
    this.list = this.list.filter((toast) => toast.id !== id)
  }
}

export const toasts = new Toasts()
