/** What all fields of one form share. */
import { getContext, setContext } from 'svelte'
import type { Findings, InnerError } from './check'
import type { Schema } from './schema'

export interface FormContext {
  readonly root: Schema
  readonly findings: Findings
  /** The alternative that is chosen at a place. Where a choice stands in another one at the same place, none is told. */
  readonly chosen: Map<string, number>
}

const KEY = Symbol('form')

export function setForm(context: FormContext): void {
  setContext(KEY, context)
}

export function getForm(): FormContext {
  return getContext<FormContext>(KEY)
}

/** Whether an error of an alternative is about what is chosen. One at the choice itself is, only where a choice is shown. */
export function isOfChosen({ chosen }: FormContext, pointer: string, error: InnerError): boolean {
  return error.within.every(([place, alternative]) => (chosen.has(place) ? chosen.get(place) === alternative : place !== pointer))
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
