import { expect, it } from 'vitest'
import { texts } from './texts'

it.each([texts.server.lists, texts.servers.offered])('counts one thing as one', (words) => {
  expect(words(1, 1, 1)).toBe('1 tool, 1 resource, 1 prompt')
  expect(words(0, 2, 3)).toBe('0 tools, 2 resources, 3 prompts')
})
