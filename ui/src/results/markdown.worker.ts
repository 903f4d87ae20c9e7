/** Reads Markdown, apart from the page: what takes too long is ended with its worker. Says that it is there, then answers. */
import { read, size, type Piece } from './markdown'

/** More would take the page long to draw. */
const MAX_PIECES = 20_000

postMessage('ready')

onmessage = (message: MessageEvent<string>) => {
  let pieces: Piece[] | undefined
  try {
    const found = read(message.data)
    if (size(found) <= MAX_PIECES) pieces = found
  } catch {
    // Markup that is nested more deeply than a stack is.
  }
  postMessage(pieces)
}
