/**
 * The configuration that is being edited. It outlives the screen, so that one can look at other screens
 * meanwhile; the browser asks before it leaves the page.
 */
import { api, ApiError } from '../../api/client'
import type { ConfigCheck, ConfigSaved, ConfigText, Finding, Plan } from '../../api/types'
import { undoable } from '../../lib/undo'
import { findingsOf, syntaxFindings } from './findings'
import type { Schema } from './schema'
import { configurationTexts } from './texts'

const CHECK_DELAY_MS = 400

function read(): Promise<ConfigText> {
  return api.get<ConfigText>('/api/config/text')
}

class Draft {
  /** What the file says; `undefined` until it was read. */
  base = $state.raw<string | undefined>(undefined)
  text = $state.raw('')
  path = $state<string | undefined>(undefined)
  /** Why the configuration could not be read. */
  failure = $state.raw<unknown>(undefined)
  findings = $state.raw<Finding[]>([])
  plan = $state.raw<Plan | undefined>(undefined)
  isChecking = $state(false)
  isSaving = $state(false)
  /** Why the last save failed, if no finding says so. */
  saveFailure = $state.raw<unknown>(undefined)
  /** What the file says now, if it changed while it was being edited. */
  theirs = $state.raw<ConfigText | undefined>(undefined)
  schema = $state.raw<Schema | undefined>(undefined)

  /** Of the file as it was read; empty while it could not be read after it was saved. */
  #digest = ''
  #timer: ReturnType<typeof setTimeout> | undefined
  #check: AbortController | undefined

  constructor() {
    addEventListener('beforeunload', (event) => {
      if (this.isDirty) event.preventDefault()
    })
  }

  get isDirty(): boolean {
    return this.base !== undefined && this.text !== this.base
  }

  get hasErrors(): boolean {
    return this.findings.some((finding) => finding.severity === 'error')
  }

  /** Reads the file. An edited text stays as it is; then what the file says is kept in `theirs` if it differs. */
  async load(): Promise<void> {
    // Saving tells of a change, too, and reads the file itself.
    if (this.isSaving) return
    try {
      const now = await read()
      this.failure = undefined
      if (!this.isDirty || now.text === this.text) this.#take(now)
      else this.#meet(now)
    } catch (error) {
      this.failure = error
    }
    if (!this.schema) await this.#loadSchema()
    this.#later(0)
  }

  edit(text: string): void {
    if (text === this.text) return
    this.text = text
    this.saveFailure = undefined
    this.#later(CHECK_DELAY_MS)
  }

  reset(): void {
    if (this.theirs) this.#take(this.theirs)
    else this.edit(this.base ?? '')
    this.saveFailure = undefined
  }

  /** Takes the file's text in place of what was edited. */
  takeTheirs(): void {
    if (this.theirs) this.#take(this.theirs)
    this.#later(0)
  }

  /** Goes on with what was edited, over what the file says now. */
  keepMine(): void {
    if (!this.theirs) return
    this.base = this.theirs.text
    this.#digest = this.theirs.digest
    this.theirs = undefined
  }

  /** Writes the file and puts it in force. Answers whether it did. */
  async save(): Promise<boolean> {
    this.isSaving = true
    this.saveFailure = undefined
    try {
      const say = await undoable()
      const isSaved = await this.#save(this.text)
      if (isSaved) void say(configurationTexts.saved)
      return isSaved
    } finally {
      this.isSaving = false
    }
  }

  async #save(text: string): Promise<boolean> {
    try {
      if (this.#digest === '') {
        this.#meet(await read())
        if (this.theirs) return false
      }
      await api.put<ConfigSaved>('/api/config/text', { text, digest: this.#digest })
    } catch (error) {
      if (error instanceof ApiError && error.code === 'config_changed') {
        this.theirs = await read().catch(() => undefined)
      } else if (error instanceof ApiError && error.code === 'invalid_config') {
        this.findings = findingsOf(error)
      }
      this.saveFailure = error
      return false
    }
    // Saved is saved, also where the file cannot be read now: that is told apart.
    this.base = text
    this.#digest = ''
    this.theirs = undefined
    try {
      this.#take(await read())
      this.failure = undefined
    } catch (error) {
      this.failure = error
      this.#later(0)
    }
    return true
  }

  /** What the file says while it is being edited. */
  #meet(now: ConfigText): void {
    if (now.text !== this.base) this.theirs = now
    else if (this.#digest === '') this.#digest = now.digest
  }

  #take(now: ConfigText): void {
    this.base = now.text
    this.text = now.text
    this.path = now.path
    this.#digest = now.digest
    this.theirs = undefined
    this.plan = undefined
    this.findings = []
    this.#later(0)
  }

  async #loadSchema(): Promise<void> {
    try {
      this.schema = await api.get<Schema>('/api/config/schema')
    } catch {
      // The editor does without completion.
    }
  }

  #later(ms: number): void {
    clearTimeout(this.#timer)
    this.#check?.abort()
    this.#timer = setTimeout(() => void this.#run(), ms)
  }

  /** Asks the daemon what is wrong and what would be done. While it does not answer, what is no JSON is found here. */
  async #run(): Promise<void> {
    if (this.base === undefined) return
    const text = this.text
    const request = new AbortController()
    this.#check = request
    this.isChecking = true
    try {
      const answer = await api.post<ConfigCheck>('/api/config/check', { text }, request.signal)
      if (request.signal.aborted) return
      this.findings = answer.findings
      this.plan = answer.plan ?? undefined
    } catch {
      if (request.signal.aborted) return
      this.findings = syntaxFindings(text)
      this.plan = undefined
    } finally {
      if (this.#check === request) this.isChecking = false
    }
  }
}

export const draft = new Draft()
