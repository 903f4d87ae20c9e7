/** Counts changes of the colour scheme: what is drawn on a canvas reads `scheme.version`, and is drawn again. */
class Scheme {
  version = $state(0)

  constructor() {
    if (typeof addEventListener !== 'undefined') addEventListener('schemechange', () => (this.version += 1))
  }
}

export const scheme = new Scheme()
