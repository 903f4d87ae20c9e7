import { svelte } from '@sveltejs/vite-plugin-svelte'
import type { Plugin, Rolldown } from 'vite'
import { defineConfig } from 'vitest/config'

type ChunkingContext = Rolldown.ChunkingContext

/** Where `npm run dev` finds a running Mainstay. */
const daemon = process.env.MAINSTAY_URL ?? 'http://127.0.0.1:7420'

/** Parts with a file of their own, which is loaded when they are shown. */
const LARGE = /\/configuration\/(editor|colours|completion|marks|theme|tree|typing)\.ts$/

/** The file of scripts that a module goes into. Texts are one file: in pieces among code they take 2 kB more. */
function chunkOf(id: string, context: ChunkingContext): string | null {
  if (id.endsWith('/texts.ts')) return 'texts'
  if (!/\/ui\/src\/|\/node_modules\/(svelte|@tanstack|clsx|esm-env)\//.test(id) || LARGE.test(id)) return null
  first ??= reachable(['/src/main.ts', '/src/screens/servers/Servers.svelte'].map((name) => import.meta.dirname + name), context)
  return first.has(id) ? 'first' : 'screens'
}
let first: Set<string> | undefined

/** Modules with all that they import before they run. */
function reachable(ids: readonly string[], context: ChunkingContext, found = new Set<string>()): Set<string> {
  for (const id of ids) {
    if (found.has(id)) continue
    found.add(id)
    reachable(context.getModuleInfo(id)?.importedIds ?? [], context, found)
  }
  return found
}

/** Leaves the lexer of `marked` alone: what calls the rest of the package when it is loaded keeps all of it, 3 kB. */
const lexerAlone: Plugin = {
  name: 'lexer-alone',
  apply: 'build',
  transform(code, id) {
    if (!id.endsWith('/marked.esm.js')) return
    const calls = /var (\w+)=new \w+;function \w+\(\w+,\w+\)\{return \1\.parse\(/.exec(code)
    const lexer = /(\w+) as Lexer\b/.exec(code)
    if (!calls || !lexer) throw new Error('this version of marked is written in another way: mend vite.config.ts')
    return { code: `${code.slice(0, calls.index)}export{${lexer[0]}};`, map: null }
  },
}

/** Leaves out the code that takes HTML over from a server, 1.7 kB: the page has none. Calls of it, in every component, are 1.5 kB (`manualPureFunctions`). */
const neverHydrating: Plugin = {
  name: 'never-hydrating',
  apply: 'build',
  transform(code, id) {
    if (!id.endsWith('/svelte/src/internal/client/dom/hydration.js')) return
    const mountingAlone = code.replace('export let hydrating = false', 'export const hydrating = false').replace(/^\thydrating = value;$/m, '')
    if (/^\thydrating = |let hydrating/m.test(mountingAlone)) throw new Error('this version of svelte is written in another way: mend vite.config.ts')
    return { code: mountingAlone, map: null }
  },
}

export default defineConfig({
  plugins: [svelte(), neverHydrating],
  worker: { plugins: () => [lexerAlone] },
  build: {
    // The program embeds it (crates/page/build.rs).
    outDir: 'build/page',
    target: 'es2022',
    // The content security policy knows no data: scripts, and every asset is a file of its own.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    rolldownOptions: {
      // Of the editor's packages only what is used: their top level has no effect beyond its own names.
      // What is opened from the first screen is one file: small files that are like each other compress badly alone.
      output: { codeSplitting: { includeDependenciesRecursively: false, groups: [{ name: chunkOf }] } },
      treeshake: { manualPureFunctions: ['$.reset', '$.next'], moduleSideEffects: (id) => (/node_modules\/(@codemirror|@lezer)\//.test(id) ? false : undefined) },
    },
  },
  server: {
    // The cookie and the check of Origin are the daemon's: the page and the API have one origin here, too.
    proxy: { '/api': { target: daemon, changeOrigin: false } },
  },
  test: { include: ['src/**/*.test.ts'], environment: 'node' },
})
