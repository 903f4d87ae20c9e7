/** Reads Markdown in a worker. */
import type { Piece } from './markdown'

/** How long a text may take. The reader's time grows with the square of some texts. */
const LIMIT_MS = 2000

/** Fails where the text takes too long, is nested too deeply or consists of too many pieces. */
export function readMarkdown(text: string): Promise<Piece[]> {
  const worker = new Worker(new URL('./markdown.worker.ts', import.meta.url), { type: 'module' })
  let limit: ReturnType<typeof setTimeout> | undefined
  return new Promise<Piece[]>((resolve, reject) => {
    worker.onerror = reject
    worker.onmessage = (message: MessageEvent<'ready' | Piece[] | undefined>) => {
      if (message.data === 'ready') {
        // The time to load the code of the worker does not count.
        limit = setTimeout(reject, LIMIT_MS)
        worker.postMessage(text)
      } else if (message.data) resolve(message.data)
      else reject()
    }
  }).finally(() => {
    clearTimeout(limit)
    worker.terminate()
  })
}
