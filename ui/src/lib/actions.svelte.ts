import { untrack } from 'svelte'

/** What the command palette offers beside screens and servers: a screen adds its actions while it is open. */
export interface PaletteAction {
  title: string
  /** What the action is about, shown after the title. */
  detail?: string
  /** One for each server: it stands after the screens and servers, which it would hide. */
  isOfMany?: boolean
  run: () => void
}

class Actions {
  #sources = $state.raw<(() => PaletteAction[])[]>([])

  /** Offers actions until the returned function is called; for `$effect`. */
  offer(source: () => PaletteAction[]): () => void {
    // An effect that offers must not depend on what the others offer.
    this.#sources = [...untrack(() => this.#sources), source]
    return () => {
      this.#sources = untrack(() => this.#sources).filter((other) => other !== source)
    }
  }

  get all(): PaletteAction[] {
    return this.#sources.flatMap((source) => source())
  }
}

export const actions = new Actions()
