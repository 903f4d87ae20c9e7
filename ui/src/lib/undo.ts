/** Undoing what the page changed in the configuration, by the versions that Mainstay keeps of the file. */
import { api, messageOf } from '../api/client'
import { texts } from '../texts'
import { toasts, type Toast } from './toasts.svelte'

/** `GET /api/config/history` */
interface History {
  versions: { version: number; by: string }[]
  /** The file is not the newest version: an undo would be refused. */
  changed: boolean
}

/** The notice whose undo can work: of the newest change. */
let offered: { toast: number; version: number } | undefined

/** Says that something was done; `changes` is how many versions of the file that made at most. */
type Say = (text: string, tone?: Toast['tone'], changes?: number) => Promise<void>

/**
 * Called before the page changes the configuration: what says afterwards that it did, with a button that undoes it.
 * There is none where nothing was changed, another hand has changed the file since, or no versions are kept.
 */
export async function undoable(): Promise<Say> {
  const newest = await read().then(
    ({ versions }) => versions[0]?.version ?? 0,
    () => Infinity,
  )
  return async (text, tone = 'well', changes = 1) => {
    const id = toasts.show(text, tone)
    try {
      const { versions, changed } = await read()
      endStale(versions[0]?.version, changed)
      // The last ones are the page's; what was changed by hand before is a version of its own.
      const made = versions.findIndex((change) => change.by !== 'page' || change.version <= newest)
      if (changed || made < 1 || made > changes) return
      const [last, before] = [versions[0]!.version, versions[made]!.version]
      offered = { toast: id, version: last }
      toasts.offer(id, { text: texts.undo.undo, run: () => void undo(last, before) })
    } catch {
      // Then there is no undo: what was done is said all the same.
    }
  }
}

/** Called when the configuration may have changed: the notice of an older change goes, since its undo would be refused. */
export async function checkOffered(): Promise<void> {
  if (!offered) return
  await read().then(
    ({ versions, changed }) => endStale(versions[0]?.version, changed),
    () => undefined,
  )
}

function endStale(newest: number | undefined, changed: boolean): void {
  if (!offered || (offered.version === newest && !changed)) return
  toasts.dismiss(offered.toast)
  offered = undefined
}

function read(): Promise<History> {
  return api.get<History>('/api/config/history')
}

/** Goes back to a version, if the file is still the one that the change made. An event has the page read everything anew. */
async function undo(made: number, before: number): Promise<void> {
  try {
    const { versions, changed } = await read()
    if (changed || versions[0]?.version !== made) return void toasts.show(texts.undo.changedSince, 'bad')
    await api.post('/api/config/undo', { version: before })
    toasts.show(texts.undo.undone, 'well')
  } catch (error) {
    toasts.show(texts.undo.failed(messageOf(error)), 'bad')
  }
}
