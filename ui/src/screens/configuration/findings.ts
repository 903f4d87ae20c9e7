/** Findings about the configuration, wherever they come from, in one form. */
import type { ApiError } from '../../api/client'
import type { Finding } from '../../api/types'
import { lineAt, parse } from './jsonc'
import { configurationTexts } from './texts'

/** Syntax errors, found without the daemon. */
export function syntaxFindings(text: string): Finding[] {
  return parse(text).problems.map((problem) => ({
    severity: 'error',
    path: '',
    ...lineAt(text, problem.from),
    message: configurationTexts.syntax[problem.message],
  }))
}

/** The findings of a refused configuration. */
export function findingsOf(error: ApiError): Finding[] {
  return error.findings.length > 0 ? error.findings : [{ severity: 'error', path: '', message: error.message }]
}
