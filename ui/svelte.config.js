import { vitePreprocess } from '@sveltejs/vite-plugin-svelte'

/** The stylesheet of each class that scopes one. */
const sheets = new Map()

/** A short class: longer ones are noise, which compresses badly. Two stylesheets must never share one; no name of ours begins with `_`. */
function cssHash({ hash, css }) {
  const name = `_${hash(css).slice(-4)}`
  if ((sheets.get(name) ?? css) !== css) throw new Error(`two components would share the class ${name}: make it longer in svelte.config.js`)
  sheets.set(name, css)
  return name
}

export default {
  preprocess: vitePreprocess(),
  compilerOptions: { runes: true, cssHash, discloseVersion: false },
}
