// What a person sees while the page works: how many frames pass before it answers, and whether anything moves.

/**
 * Counts the frames between the key or click that comes next and the one that shows one of these words for the first
 * time. In frames, not in milliseconds: on a busy machine each takes longer, and the page is not to blame.
 */
export async function countFrames(page, ...words) {
  await page.evaluate((wanted) => {
    const isShown = () => wanted.some((word) => document.body.textContent.includes(word))
    if (isShown()) throw new Error(`the page shows ${wanted} before anything was asked for`)
    window.frames = undefined
    let begun = 0
    // Enter clicks when the key goes down, Space when it goes up: what comes last begins it.
    const begin = () => {
      const own = (begun += 1)
      let frames = 0
      const look = () => {
        if (own !== begun || window.frames !== undefined) return
        frames += 1
        if (isShown()) window.frames = frames
        else requestAnimationFrame(look)
      }
      requestAnimationFrame(look)
    }
    const end = new AbortController()
    for (const type of ['keydown', 'click']) addEventListener(type, (event) => event.isTrusted && begin(), { capture: true, signal: end.signal })
    window.stopFrames = () => end.abort()
  }, words)
}

/** The number of frames, once the words are shown. */
export async function framesUntil(page) {
  await page.waitForFunction(() => window.frames !== undefined)
  return page.evaluate(() => {
    window.stopFrames()
    return window.frames
  })
}

/** From now on notes what moves by itself. */
export async function watchShifts(page) {
  await page.evaluate(() => {
    window.moved = []
    // A number at the right end of its own cell, whose box stays where it was, moves nothing; nor does a mark that
    // has room to its left.
    const isNumber = (node) => node instanceof Text || /^\d+$/.test(node?.textContent ?? '')
    const stays = ({ node, previousRect: before, currentRect: now }) =>
      isNumber(node) && before.y === now.y && (before.x === now.x || before.right === now.right)
    const told = ({ node, previousRect, currentRect }) => JSON.stringify([node?.textContent?.slice(0, 80), previousRect, currentRect])
    const note = (entries) => {
      for (const shift of entries) window.moved.push(...shift.sources.filter((source) => !stays(source)).map(told))
    }
    window.shifts?.disconnect()
    window.shifts = new PerformanceObserver((list) => note(list.getEntries()))
    window.shifts.observe({ type: 'layout-shift' })
    window.noteShifts = () => note(window.shifts.takeRecords())
  })
}

/** What has moved since `watchShifts`, after two frames more. */
export function shiftsOf(page) {
  return page.evaluate(async () => {
    for (let frame = 0; frame < 2; frame += 1) await new Promise((resolve) => requestAnimationFrame(resolve))
    window.noteShifts()
    return window.moved
  })
}
