/** Undoing what the page changed in the configuration, by the versions that Mainstay keeps of the file. */
import { api, messageOf } from '../api/client'
import { texts } from '../texts'
import { fleet } from './fleet.svelte'
import { toasts, type Toast } from './toasts.svelte'

const words = texts.undo

/** `GET /api/config/history` */
interface History {
  versions: { version: number; by: string }[]
  /** The file is not the newest version: an undo would be refused. */
  changed: boolean
}

/**
 * Says that the page has changed the configuration, with a button that undoes it. `changes` is how many versions of
 * the file that made. The button comes once the versions were read, and not where none are kept.
 */
export async function showUndoable(text: string, tone: Toast['tone'] = 'well', changes = 1): Promise<void> {
  const id = toasts.show(text, tone)
  try {
    const { versions, changed } = await read()
    const [newest, before] = [versions[0], versions[changes]]
    if (changed || !newest || !before || versions.slice(0, changes).some((it) => it.by !== 'page')) return
    toasts.offer(id, { text: words.undo, run: () => void undo(newest.version, before.version) })
  } catch {
    // Then there is no undo: what was done is said all the same.
  }
}

function read(): Promise<History> {
  return api.get<History>('/api/config/history')
}

/** Goes back to a version, if the file is still the one that the change made. */
async function undo(made: number, before: number): Promise<void> {
  try {
    const { versions, changed } = await read()
    if (changed || versions[0]?.version !== made) {
      toasts.show(words.changedSince, 'bad')
      return
    }
    await api.post('/api/config/undo', { version: before })
    toasts.show(words.undone, 'well')
    fleet.listsVersion += 1
    await fleet.refresh()
  } catch (error) {
    toasts.show(words.failed(messageOf(error)), 'bad')
  }
}
