import { expect, it } from 'vitest'
import { texts } from './texts'

const TEXTS = import.meta.glob<Record<string, unknown>>('./**/texts.ts', { eager: true })
const CODE = Object.values(import.meta.glob<string>(['./**/*.{ts,svelte}', '!./**/*.test.ts', '!./**/texts.ts', '!./api/schema.d.ts'], { query: '?raw', import: 'default', eager: true }))

it('counts one thing as one', () => {
  expect(texts.offers(1, 1, 1)).toBe('1 tool, 1 resource, 1 prompt')
  expect(texts.offers(0, 2, 3)).toBe('0 tools, 2 resources, 3 prompts')
})

it('has no text that nothing shows', () => {
  const unused = Object.values(TEXTS)
    .flatMap((module) => Object.entries(module))
    .flatMap(([name, section]) => unusedOf(CODE.filter((code) => new RegExp(`\\b${name}\\b`).test(code)).join('\n'), section, [name]))
  expect(unused).toEqual([])
})

/** Paths of texts whose last name stands nowhere in the code. Members of what is indexed, `states[state]`, are not looked for. */
function unusedOf(code: string, section: unknown, path: string[]): string[] {
  if (typeof section !== 'object' || section === null || Array.isArray(section)) return []
  if (new RegExp(`\\b${path.at(-1)}\\s*(\\[|\\bas\\b|\\)|,$)`, 'm').test(code)) return []
  return Object.entries(section).flatMap(([key, text]) =>
    new RegExp(`[.{,]\\s*${key}\\b`).test(code) ? unusedOf(code, text, [...path, key]) : [[...path, key].join('.')],
  )
}
