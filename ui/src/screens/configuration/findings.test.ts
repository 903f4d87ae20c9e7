import { describe, expect, it } from 'vitest'
import { ApiError } from '../../api/client'
import { findingsOf, fromLine, syntaxFindings } from './findings'
import { parse } from './jsonc'

const text = '{\n\n  "mcpServers": {\n    "a": { "args": "x" }\n  }\n}\n'

describe('findings', () => {
  it('are at the place of their path in the edited text', () => {
    expect(fromLine('/x/servers.json:2:9: mcpServers.a.args: Server a: args must be an array', text, parse(text))).toEqual({
      severity: 'error',
      path: 'mcpServers.a.args',
      line: 4,
      column: 12,
      message: 'Server a: args must be an array',
    })
  })

  it('are at their line where they have no path', () => {
    const finding = fromLine('C:\\x\\servers.json:3:5: expected a colon', text, parse(text))
    expect(finding).toMatchObject({ line: 3, column: 5, message: 'expected a colon' })
  })

  it('of an answer without findings are its message', () => {
    expect(findingsOf(new ApiError('invalid_config', 400, 'no'), text)).toEqual([{ severity: 'error', path: '', message: 'no' }])
  })

  it('may be warnings', () => {
    expect(fromLine('warning: s.json:1:1: x: unknown key', text, parse(text)).severity).toBe('warning')
  })

  it('tell what is no JSON', () => {
    expect(syntaxFindings('{\n "a" 1}')[0]).toMatchObject({ severity: 'error', line: 2, column: 2 })
  })
})
