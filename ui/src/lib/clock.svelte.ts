/** One timer for the page: relative times and countdowns read `clock.now`, which changes once a second. */
class Clock {
  now = $state(Date.now())

  constructor() {
    if (typeof document === 'undefined') return
    setInterval(() => this.tick(), 1000)
    document.addEventListener('visibilitychange', () => this.tick())
  }

  private tick(): void {
    if (!document.hidden) this.now = Date.now()
  }
}

export const clock = new Clock()
