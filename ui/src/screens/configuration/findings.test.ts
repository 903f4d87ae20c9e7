import { describe, expect, it } from 'vitest'
import { ApiError } from '../../api/client'
import { findingsOf, syntaxFindings } from './findings'

describe('findings', () => {
  it('of a refusal are those of its answer', () => {
    const finding = { severity: 'error', path: 'mcpServers.a.args', line: 4, column: 12, message: 'args must be an array' }
    expect(findingsOf(new ApiError('invalid_config', 400, 'no', { findings: [finding] }))).toEqual([finding])
  })

  it('of an answer without findings are its message', () => {
    expect(findingsOf(new ApiError('invalid_config', 400, 'no'))).toEqual([{ severity: 'error', path: '', message: 'no' }])
  })

  it('tell what is no JSON', () => {
    expect(syntaxFindings('{\n "a" 1}')[0]).toMatchObject({ severity: 'error', line: 2, column: 2 })
  })
})
