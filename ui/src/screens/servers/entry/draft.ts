/** A server that is to be added, on its way through the dialog. */
import { api, ApiError } from '../../../api/client'
import type { Operated } from '../../../api/types'
import { fleet } from '../../../lib/fleet.svelte'
import { byField, freeName, type Entry, type FieldErrors } from './entry'
import { entryTexts } from './texts'

export interface Draft {
  id: number
  name: string
  entry: Entry
  notes: string[]
  isChosen: boolean
  isSaved: boolean
  /** The name that it came with, where a server has that already. */
  taken?: string | undefined
  /** The server that it replaces, as somebody chose by hand. Another name takes the choice back. */
  replaces?: string | undefined
  errors?: FieldErrors | undefined
  /** An error that belongs to no field. */
  failure?: unknown
}

let lastId = 0

export function draft(name: string, entry: Entry, notes: string[] = []): Draft {
  lastId += 1
  return { id: lastId, name, entry, notes, isChosen: true, isSaved: false }
}

/** A server whose name exists is not replaced unasked: it is offered under another name, which none of `others` has. */
export function offered(name: string, entry: Entry, notes: string[] = [], exists = fleet.rows.has(name), others: readonly string[] = []): Draft {
  const isTaken = (candidate: string): boolean => fleet.rows.has(candidate) || others.includes(candidate)
  return exists ? { ...draft(freeName(name, isTaken), entry, notes), taken: name } : draft(name, entry, notes)
}

export function isReplacing(draft: Draft): boolean {
  return draft.replaces !== undefined && draft.replaces === draft.name.trim()
}

/** What went wrong, at the fields where it can be told. */
export function complaint(error: unknown): { errors?: FieldErrors; failure?: unknown } {
  if (!(error instanceof ApiError)) return { failure: error }
  if (error.code === 'duplicate_name') return { errors: { name: [entryTexts.nameTaken] } }
  return error.findings.length > 0 ? { errors: byField(error.findings) } : { failure: error }
}

/** Saves a draft in the configuration. It is kept even where it cannot be connected yet. */
export function save(draft: Draft): Promise<Operated> {
  return api.post<Operated>('/api/servers', { ...draft.entry, name: draft.name.trim(), persist: true, replace: isReplacing(draft) })
}
