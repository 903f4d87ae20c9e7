/** What a server runs or where it is, in one line. */
import type { ClientServer, Pending, Server } from '../../api/types'
import { visible } from '../../lib/format'
import { callsTexts } from '../calls/texts'
import { shortOf } from './short'
import { serversTexts } from './texts'

/** As a shell reads it: what is not plain stands in quotes. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./~-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}

export function commandLine(words: readonly string[]): string {
  return words.map(quoted).join(' ')
}

/** The command or address of an entry in a client's file. */
export function lineOf(entry: ClientServer): string {
  return entry.url ?? commandLine([entry.command ?? '', ...(entry.args ?? [])])
}

/** The program or address of a row, without its arguments: they may be secret. */
export function targetOf(info: Server): string {
  return visible(info.command ?? info.url ?? info.transport)
}

/** The same in short, where its entry is not known. */
export function shortTargetOf(info: Server): string {
  return shortOf({ command: info.command, url: info.url }) ?? visible(info.transport)
}

/** The whole command line or address of a server that waits for approval. */
export function pendingTarget(pending: Pending): string {
  return pending.command?.length ? commandLine(pending.command) : (pending.url ?? '')
}

/** The client that asks for a server which waits for approval and is not of the file. */
export function requesterOf(pending: Server['pending']): string | undefined {
  const by = pending?.requestedBy
  if (!by) return undefined
  const token = by.principal?.startsWith('client:') ? by.principal.slice('client:'.length) : ''
  return visible(serversTexts.requester(by.client ?? '', callsTexts.doors[by.door] ?? by.door, token))
}
