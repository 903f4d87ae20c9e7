import { expect, test } from 'vitest'
import { commandOf, curlOf, quoted } from './commands'

test.each([
  ['plain/word=1', 'plain/word=1'],
  ['', "''"],
  ["it's", `'it'\\''s'`],
  ['$(rm -rf /)', `'$(rm -rf /)'`],
  ['a\nb', "'a\nb'"],
])('quoted %j', (word, expected) => expect(quoted(word)).toBe(expected))

const schema = { properties: { text: { type: 'string' }, n: { type: 'integer' }, on: { type: 'boolean' }, any: {}, list: { type: 'array' } } }

test.each<[Record<string, unknown>, string]>([
  [{}, 'mainstay call files/echo'],
  [{ text: 'hello', n: 3, on: true }, 'mainstay call files/echo text=hello n=3 on=true'],
  [{ text: 'two words' }, "mainstay call files/echo 'text=two words'"],
  // Text that reads as JSON is written as JSON; `@` names a file.
  [{ text: '5' }, `mainstay call files/echo 'text="5"'`],
  [{ text: '@file' }, 'mainstay call files/echo text=@@file'],
  // Where a pair would not say the same, all is JSON.
  [{ n: 1.5 }, `mainstay call files/echo --args '{"n":1.5}'`],
  [{ any: 'x' }, `mainstay call files/echo --args '{"any":"x"}'`],
  [{ list: [1] }, `mainstay call files/echo --args '{"list":[1]}'`],
  [{ 'a=b': 'x' }, `mainstay call files/echo --args '{"a=b":"x"}'`],
])('commandOf %j', (args, expected) => expect(commandOf('files/echo', args, schema)).toBe(expected))

test('curlOf', () => {
  expect(curlOf('files/echo', { text: "it's" }, 'http://127.0.0.1:7420')).toContain(`-d '{"tool":"files/echo","arguments":{"text":"it'\\''s"}}'`)
})
