/** What a person sets for this browser: kept in its storage, never sent. */
export const SCHEMES = ['system', 'light', 'dark'] as const
type Scheme = (typeof SCHEMES)[number]

const KEY = 'mainstay.settings'

interface Stored {
  scheme?: Scheme
  noticeRead?: boolean
}

class Settings {
  scheme = $state<Scheme>('system')
  /** Whether the notice about what servers may do was read and put away. */
  noticeRead = $state(false)

  private dark = typeof matchMedia === 'undefined' ? undefined : matchMedia('(prefers-color-scheme: dark)')

  constructor() {
    if (typeof localStorage === 'undefined') return
    try {
      const stored = JSON.parse(localStorage.getItem(KEY) ?? '{}') as Stored
      if (stored.scheme === 'light' || stored.scheme === 'dark') this.scheme = stored.scheme
      this.noticeRead = stored.noticeRead === true
    } catch {
      // The stored text is not ours, or storage is blocked: use the defaults.
    }
    this.dark?.addEventListener('change', () => this.apply())
    this.apply()
  }

  setScheme(scheme: Scheme): void {
    this.scheme = scheme
    this.keep()
  }

  readNotice(): void {
    this.noticeRead = true
    this.keep()
  }

  /** The colours in use: those of the system unless a person chose others. */
  get activeScheme(): 'light' | 'dark' {
    if (this.scheme !== 'system') return this.scheme
    return this.dark?.matches ? 'dark' : 'light'
  }

  private apply(): void {
    document.documentElement.dataset.scheme = this.activeScheme
    dispatchEvent(new CustomEvent('schemechange'))
  }

  private keep(): void {
    this.apply()
    try {
      localStorage.setItem(KEY, JSON.stringify({ scheme: this.scheme, noticeRead: this.noticeRead } satisfies Stored))
    } catch {
      // Storage is blocked or full: the settings hold until the page is closed.
    }
  }
}

export const settings = new Settings()
