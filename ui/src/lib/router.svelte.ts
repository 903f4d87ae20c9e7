/**
 * The address of a screen: `#/servers/files/log?follow=1`. Everything that a screen filters by is in it,
 * so that an address can be shared.
 */
export interface Route {
  /** Decoded parts of the path: `['servers', 'files', 'log']`. */
  parts: string[]
  query: URLSearchParams
}

export function parse(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s)
  const parts = path.split('/').filter((part) => part !== '').map(decode)
  return { parts, query: new URLSearchParams(query) }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** The address of a screen; empty values are left out. */
export function href(parts: readonly string[], query: Record<string, string | null | undefined> = {}): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value) search.set(name, value)
  const text = search.toString()
  return `#/${parts.map(encodeURIComponent).join('/')}${text ? `?${text}` : ''}`
}

class Router {
  #route = $state.raw<Route>({ parts: [], query: new URLSearchParams() })

  constructor() {
    if (typeof location === 'undefined') return
    const read = (): void => {
      this.#route = parse(location.hash)
    }
    read()
    addEventListener('hashchange', read)
    addEventListener('popstate', read)
  }

  get parts(): string[] {
    return this.#route.parts
  }

  get query(): URLSearchParams {
    return this.#route.query
  }

  /** The screen, `servers` at the root. */
  get screen(): string {
    return this.#route.parts[0] ?? 'servers'
  }

  go(to: string): void {
    location.hash = to.replace(/^#/, '')
  }

  /** Goes to an address in place of the one that is shown: "back" skips it. */
  replace(to: string): void {
    history.replaceState(null, '', to)
    this.#route = parse(to)
  }

  /** Changes filters in place; with `push` as a step that "back" undoes. */
  set(changes: Record<string, string | null | undefined>, push = false): void {
    const query = new URLSearchParams(this.#route.query)
    for (const [name, value] of Object.entries(changes)) {
      if (value) query.set(name, value)
      else query.delete(name)
    }
    const to = href(this.#route.parts, Object.fromEntries(query))
    if (push) history.pushState(null, '', to)
    else history.replaceState(null, '', to)
    this.#route = { parts: this.#route.parts, query }
  }
}

export const router = new Router()
