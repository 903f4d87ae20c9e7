/** What all fields of one form share. */
import { getContext, setContext } from 'svelte'
import type { Findings } from './check'
import type { Schema } from './schema'

export interface FormContext {
  readonly root: Schema
  readonly findings: Findings
}

const KEY = Symbol('form')

export function setForm(context: FormContext): void {
  setContext(KEY, context)
}

export function getForm(): FormContext {
  return getContext<FormContext>(KEY)
}

/** What every control of a field is given. */
export interface ControlProps {
  id: string
  /** The ids of the texts about it. */
  describedBy: string | undefined
  invalid: boolean
  required: boolean
  value: unknown
  onchange: (value: unknown) => void
}
