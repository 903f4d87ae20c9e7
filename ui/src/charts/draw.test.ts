import { expect, it } from 'vitest'
import { look, WORDS } from '../lib/status'
import { texts } from '../texts'
import { shapeKey, shapeOf } from './draw'

it('the key tells of every state by what it is drawn', () => {
  const key = shapeKey()
  for (const word of WORDS) {
    const fitting = key.filter(({ title }) => title.split(', ').includes(texts.state[word]))
    expect(fitting.map(({ shape, tone }) => [shape, tone]), word).toEqual([[shapeOf(word), look(word).tone]])
  }
  expect(key.map(({ title }) => title)).toEqual(['Running', 'Degraded', 'Awaits approval', 'Starting, Stopping', 'Unauthorized, Error, Crashed', 'Stopped, Disabled'])
})
