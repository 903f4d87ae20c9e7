import { expect, test } from 'vitest'
import { commandOf, curlOf, isPastable, quoted } from './commands'

test.each([
  ['plain/word=1', 'plain/word=1'],
  ['', "''"],
  ["it's", `'it'\\''s'`],
  ['$(rm -rf /)', `'$(rm -rf /)'`],
  ['a\nb', "'a\nb'"],
])('quoted %j', (word, expected) => expect(quoted(word)).toBe(expected))

const schema = {
  properties: {
    text: { type: 'string' },
    n: { type: 'integer' },
    on: { type: 'boolean' },
    any: {},
    list: { type: 'array' },
    mode: { enum: ['1', '2'] },
    maybe: { type: ['string', 'null'] },
    either: { anyOf: [{ type: 'integer' }, { type: 'string' }] },
  },
}

test.each<[Record<string, unknown>, string]>([
  [{}, 'mainstay call files/echo'],
  [{ text: 'hello', n: 3, on: true }, 'mainstay call files/echo text=hello n=3 on=true'],
  [{ text: 'two words' }, "mainstay call files/echo 'text=two words'"],
  [{ text: '5' }, 'mainstay call files/echo text=5'],
  [{ text: '"quoted"' }, `mainstay call files/echo 'text="quoted"'`],
  // `@` names a file.
  [{ text: '@file' }, 'mainstay call files/echo text=@@file'],
  [{ list: [1, 2] }, `mainstay call files/echo 'list=[1,2]'`],
  [{ mode: '1' }, 'mainstay call files/echo mode=1'],
  [{ maybe: null }, 'mainstay call files/echo maybe=null'],
  [{ any: 'x' }, 'mainstay call files/echo any=x'],
  // Where a pair would not say the same, all is JSON.
  [{ n: 1.5 }, `mainstay call files/echo --args '{"n":1.5}'`],
  [{ any: '5' }, `mainstay call files/echo --args '{"any":"5"}'`],
  [{ either: '7' }, `mainstay call files/echo --args '{"either":"7"}'`],
  [{ maybe: 'null' }, `mainstay call files/echo --args '{"maybe":"null"}'`],
  [{ 'a=b': 'x' }, `mainstay call files/echo --args '{"a=b":"x"}'`],
])('commandOf %j', (args, expected) => expect(commandOf('files/echo', args, schema)).toBe(expected))

test('curlOf', () => {
  expect(curlOf('/api/mcp-tools/call', { tool: 'files/echo', arguments: { text: "it's" } }, 'http://127.0.0.1:7420')).toContain(`-d '{"tool":"files/echo","arguments":{"text":"it'\\''s"}}'`)
})

test('nothing that is pasted has control characters', () => {
  const args = { text: 'a\u001b[201~\nb\u009b' }
  expect(commandOf('files/echo', args, schema)).toBe(`mainstay call files/echo --args '{"text":"a\\u001b[201~\\nb\\u009b"}'`)
  expect(isPastable(curlOf('/api/mcp-tools/call', { tool: 'files/e\u001bcho', arguments: args }, 'http://127.0.0.1:7420'))).toBe(true)
  expect(isPastable(commandOf('files/e\u001bcho', {}, schema))).toBe(false)
})
