/** Findings about the configuration, wherever they come from, in one form. */
import type { ApiError } from '../../api/client'
import type { Finding } from '../../api/types'
import { texts } from '../../texts'
import { findDotted, lineAt, parse, type Document } from './jsonc'

/** What is no JSON, without a daemon. */
export function syntaxFindings(text: string): Finding[] {
  return parse(text).problems.map((problem) => ({
    severity: 'error',
    path: '',
    ...lineAt(text, problem.from),
    message: texts.configuration.syntax[problem.message],
  }))
}

/** `servers.json:3:38: mcpServers.a.args: message`, and `warning: …` before it. */
const LINE = /^(warning: )?(?:.*?):(\d+):(\d+): (?:([^\s:]+): )?([\s\S]*)$/

/**
 * The findings of a refused configuration. Lines are those of the file that the daemon would have written, so the
 * place is found by the path where there is one.
 */
export function findingsOf(error: ApiError, text: string): Finding[] {
  const given = Array.isArray(error.body.findings) ? (error.body.findings as unknown[]) : []
  if (given.length === 0) return [{ severity: 'error', path: '', message: error.message }]
  const document = parse(text)
  return given.map((one) => {
    if (typeof one === 'object' && one !== null && 'message' in one) return one as Finding
    return fromLine(String(one), text, document)
  })
}

export function fromLine(line: string, text: string, document: Document): Finding {
  const [, warning, row, column, path, message] = LINE.exec(line) ?? []
  if (message === undefined) return { severity: 'error', path: '', message: line }
  const place = path === undefined ? undefined : findDotted(document.root, path)
  const at = place ? lineAt(text, place.from) : { line: Number(row), column: Number(column) }
  return { severity: warning ? 'warning' : 'error', path: path ?? '', ...at, message }
}
