// A person without a mouse: controls are reached by keys alone, and the focus is watched.
import assert from 'node:assert/strict'
import { closePage, openPage, soon } from './harness.mjs'

/** Frames in which the focus may be on its way, as from a dialog that closes to what opened it. */
const FRAMES = 10

/** A page that notes when nothing has the focus any more. That Tab leaves the last control is the browser's. */
export async function openForKeys(daemon, hash, options) {
  const page = await openPage(daemon, hash, options)
  await page.evaluate((frames) => {
    window.lost = []
    let last
    let key
    let without = 0
    // Not Shift, which comes before Tab.
    addEventListener('keydown', (event) => (key = event.key === 'Shift' ? key : event.key), true)
    const look = () => {
      const at = document.activeElement
      without = at === document.body ? without + 1 : 0
      if (at !== document.body) last = at
      else if (last && key !== 'Tab' && without > frames) {
        window.lost.push(`after ${key}: ${last.outerHTML.slice(0, 200)}`)
        last = undefined
      }
      requestAnimationFrame(look)
    }
    look()
  }, FRAMES)
  return page
}

/** Ends a page, and fails where its focus was lost. */
export async function closeForKeys(page) {
  assert.deepEqual(await page.evaluate(() => window.lost), [], 'the focus was lost')
  await closePage(page)
}

const isFocused = (target) => target.first().evaluate((element) => element.matches(':focus'))
export const has = (page, target) => soon(`the focus at ${target}`, () => isFocused(target))

/** Presses Tab, or another key, until `target` has the focus. */
export async function reach(page, target, key = 'Tab') {
  await target.first().waitFor()
  for (let step = 0; step < 100; step += 1) {
    if (await isFocused(target)) return
    await page.keyboard.press(key)
  }
  throw new Error(`${target} is not reached by ${key}`)
}

/** Goes to a control, and presses a key on it. */
export async function push(page, target, key = 'Enter', by = 'Tab') {
  await reach(page, target, by)
  await page.keyboard.press(key)
}

/** Goes to a field, and types over what is in it. */
export async function enter(page, target, text) {
  await reach(page, target)
  await page.keyboard.press('Control+a')
  await page.keyboard.type(text)
}

/** Presses Escape, and waits until the page has heard that a dialog is closed: browsers tell that a moment later. */
export async function escape(page) {
  await page.keyboard.press('Escape')
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
}
