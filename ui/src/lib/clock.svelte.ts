/**
 * The clock of the daemon: times of the API are compared with it, for that of the browser may differ. Relative times
 * and countdowns read `clock.now`, which changes once a second.
 */
import { whenDated } from '../api/client'
import { offsetAfter } from './offset'

class Clock {
  /** How far the daemon's clock is ahead of the browser's, in milliseconds. */
  #offset = 0
  now = $state(Date.now())

  constructor() {
    if (typeof document === 'undefined') return
    whenDated((date, sentAt, receivedAt) => {
      const before = this.#offset
      this.#offset = offsetAfter(before, date, sentAt, receivedAt)
      if (this.#offset !== before) this.now = this.exact()
    })
    setInterval(() => this.tick(), 1000)
    document.addEventListener('visibilitychange', () => this.tick())
  }

  /** The current time. It is not reactive. */
  exact(): number {
    return Date.now() + this.#offset
  }

  private tick(): void {
    if (!document.hidden) this.now = this.exact()
  }
}

export const clock = new Clock()
