import { describe, expect, test } from 'vitest'
import { blocksOf, dataUrl, endingOf, isLight, jsonOf, looksLikeMarkdown, messagesOf, pretty, tableOf } from './content'

describe('dataUrl', () => {
  test.each<['image' | 'audio', string, string, string | undefined]>([
    ['image', 'image/png', 'AAAA', 'data:image/png;base64,AAAA'],
    ['image', 'IMAGE/JPEG; x=y', 'AA AA\n', 'data:image/jpeg;base64,AAAA'],
    ['image', 'text/html', 'AAAA', undefined],
    ['image', 'image/png,<script>', 'AAAA', undefined],
    ['image', 'image/png', 'AA"><script>', undefined],
    ['image', 'image/png', '', undefined],
    ['audio', 'audio/wav', 'AAAA', 'data:audio/wav;base64,AAAA'],
    ['audio', 'video/mp4', 'AAAA', undefined],
  ])('%s %j %j', (media, mime, data, expected) => expect(dataUrl(media, mime, data)).toBe(expected))
})

test.each<[string, string]>([
  ['image/png', 'png'],
  ['IMAGE/JPEG; q=1', 'jpg'],
  ['audio/mpeg', 'mp3'],
  ['text/plain', 'txt'],
  // What a system or a browser would run.
  ...['application/exe', 'x/bat', 'text/html', 'application/hta', 'x/lnk', 'text/desktop', 'image/svg+xml', 'text/javascript', 'constructor', ''].map((mime): [string, string] => [mime, 'bin']),
])('endingOf %j', (mime, expected) => expect(endingOf(mime)).toBe(expected))

test('blocks of any form', () => {
  expect(blocksOf({ content: [{ type: 'text', text: 1 }, null, { type: 'odd' }] })).toEqual([
    { kind: 'text', text: '', mime: undefined },
    { kind: 'unknown', type: 'object', value: null },
    { kind: 'unknown', type: 'odd', value: { type: 'odd' } },
  ])
  expect(blocksOf({ contents: [{ uri: 'a', text: 'x' }] })).toMatchObject([{ kind: 'resource', uri: 'a', text: 'x' }])
  expect(blocksOf('text')).toEqual([])
  expect(messagesOf({ messages: [{ role: 'user', content: { type: 'text', text: 'x' } }, 3] })).toHaveLength(2)
})

describe('tableOf', () => {
  test.each<[unknown, string[] | undefined]>([
    [[{ a: 1 }, { b: null }], ['a', 'b']],
    [{ rows: [{ a: 1 }], total: 1 }, ['a']],
    [[{ a: { b: 1 } }], undefined],
    [[1, 2], undefined],
    [[], undefined],
    ['text', undefined],
  ])('%j', (value, columns) => expect(tableOf(value)?.columns).toEqual(columns))
})

test('JSON that is nested more deeply than a stack is', () => {
  const deep = jsonOf('['.repeat(200_000) + ']'.repeat(200_000))
  expect(Array.isArray(deep)).toBe(true)
  expect(pretty(deep)).toBeUndefined()
  expect(jsonOf('5')).toBeUndefined()
  expect(jsonOf('{"a":')).toBeUndefined()
})

test.each([
  ['# Title', true],
  ['- one\n- two', true],
  ['plain text, with 2 * 3', false],
])('looksLikeMarkdown %j', (text, expected) => expect(looksLikeMarkdown(text)).toBe(expected))

describe('a picture that is shown unasked', () => {
  /** The head of a PNG of these sizes. */
  const png = (width: number, height: number): string => {
    const bytes = [0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52]
    for (const size of [width, height]) bytes.push(size >>> 24, (size >>> 16) & 255, (size >>> 8) & 255, size & 255)
    return btoa(String.fromCharCode(...bytes))
  }

  test.each([
    ['image/png', png(1920, 1080), true],
    ['image/png; charset=x', png(8000, 5000), true],
    ['image/png', png(30_000, 30_000), false],
    ['image/png', 'no base64!', false],
    ['image/jpeg', 'A'.repeat(1000), true],
    ['image/jpeg', 'A'.repeat(4_000_001), false],
    ['image/svg+xml', 'AAAA', false],
  ])('%s %#', (mime, data, expected) => {
    expect(isLight(mime, data)).toBe(expected)
  })
})
