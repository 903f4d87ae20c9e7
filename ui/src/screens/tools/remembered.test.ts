import { expect, it } from 'vitest'
import { placed } from './remembered'

const on = (server: string, ...names: string[]) => names.map((name) => ({ server, name }))
const off = (server: string, name: string, after?: string) => ({ server, name, after })
const names = (list: { server: string; name: string }[]) => list.map((it) => `${it.server}/${it.name}`)

it('puts a tool that is off where it stood', () => {
  const list = [...on('a', 'one', 'three'), ...on('b', 'x')]
  expect(names(placed(list, [off('a', 'two', 'one')]))).toEqual(['a/one', 'a/two', 'a/three', 'b/x'])
  expect(names(placed(list, [off('b', 'w', '')]))).toEqual(['a/one', 'a/three', 'b/w', 'b/x'])
})

it('puts several that stood behind each other in their order', () => {
  expect(names(placed(on('a', 'one', 'four'), [off('a', 'three', 'two'), off('a', 'two', 'one')]))).toEqual(['a/one', 'a/two', 'a/three', 'a/four'])
})

it('puts what nothing is known of at the end of its server, also where all of it is off', () => {
  expect(names(placed([...on('a', 'one'), ...on('b', 'x')], [off('a', 'two'), off('a', 'three', 'gone'), off('c', 'y', 'z')]))).toEqual(['a/one', 'a/two', 'a/three', 'b/x', 'c/y'])
})
