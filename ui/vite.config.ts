import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vitest/config'

/** Where `npm run dev` finds a running Mainstay. */
const daemon = process.env.MAINSTAY_URL ?? 'http://127.0.0.1:7420'

export default defineConfig({
  plugins: [svelte()],
  build: {
    target: 'es2022',
    // The content security policy knows no data: scripts, and every asset is a file of its own.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  server: {
    // The cookie and the check of Origin are the daemon's: the page and the API have one origin here, too.
    proxy: { '/api': { target: daemon, changeOrigin: false } },
  },
  test: { include: ['src/**/*.test.ts'], environment: 'node' },
})
