/** Reads Markdown in a worker, which the page can end when a text takes too long. Posts a message when it is ready, then answers. */
import { read, size, type Piece } from './markdown'

/** More pieces would take the page too long to draw. */
const MAX_PIECES = 20_000

postMessage('ready')

onmessage = (message: MessageEvent<string>) => {
  let pieces: Piece[] | undefined
  try {
    const found = read(message.data)
    if (size(found) <= MAX_PIECES) pieces = found
  } catch {
    // The markup is nested more deeply than the stack allows.
  }
  postMessage(pieces)
}
