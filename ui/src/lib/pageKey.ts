/**
 * The second secret of a session. Browsers send a cookie to every port of its host; the storage of a page is for its
 * own port alone. The daemon tells the key once, when the browser signs in.
 */
const NAME = 'mainstay.pageKey'

/** Kept for this page where the browser keeps nothing. */
let key = ''

/** Uses the storage of the page. Where it is blocked or full, the session ends with the page. */
function withStorage<T>(use: (storage: Storage) => T): T | undefined {
  try {
    return use(localStorage)
  } catch {
    return undefined
  }
}

export function get(): string {
  return withStorage((storage) => storage.getItem(NAME)) ?? key
}

export function set(value: string): void {
  key = value
  withStorage((storage) => storage.setItem(NAME, value))
}

export function forget(): void {
  key = ''
  withStorage((storage) => storage.removeItem(NAME))
}
