/**
 * Keeps the focus on the page. When the focused element moves with its row, it gets the focus back. When it is
 * removed, the control that took its place gets the focus, else the one before it, else the one after it. A dialog
 * gives the focus back by itself.
 */
const CONTROLS = 'a[href], button, input, select, textarea, summary, [tabindex]'
/** The search for a control stays within one of these. After a change of screens the next screen takes the focus. */
const SEARCH_ROOTS = 'main, nav, dialog, body'

function isControl(element: HTMLElement): boolean {
  return element.matches(CONTROLS) && element.tabIndex >= 0 && !element.matches(':disabled') && element.checkVisibility({ visibilityProperty: true })
}

function controlsIn(root: Element): HTMLElement[] {
  return [...root.querySelectorAll<HTMLElement>(CONTROLS)].filter(isControl)
}

/** The control that is nearest to the place of what was removed. */
function nearest(lost: MutationRecord, records: readonly MutationRecord[]): HTMLElement | undefined {
  let place = lost.target as Element
  if (!place.isConnected || place.matches(SEARCH_ROOTS)) return undefined
  for (const { target, addedNodes } of records) {
    if (target !== place) continue
    for (const node of addedNodes) {
      if (!(node instanceof HTMLElement) || !node.isConnected) continue
      const first = isControl(node) ? node : controlsIn(node)[0]
      if (first) return first
    }
  }
  let after = lost.nextSibling
  // The elements behind it may have been removed with it. Moves and removals are separate records.
  const seen = new Set<Node>()
  while (after && !after.isConnected && !seen.has(after)) {
    const gone = after
    seen.add(gone)
    after = records.find(({ removedNodes }) => [...removedNodes].includes(gone))?.nextSibling ?? null
  }
  if (after && !after.isConnected) after = null
  for (; !place.matches(SEARCH_ROOTS); after = place, place = place.parentElement!) {
    const all = controlsIn(place)
    const isBefore = (element: Element): boolean => !after || (after.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_PRECEDING) !== 0
    const found = all.findLast(isBefore) ?? all[0]
    if (found) return found
  }
  return undefined
}

/** Starts to keep the focus on the page. */
export function keepFocus(): void {
  let last: HTMLElement | undefined
  addEventListener('focusin', (event) => (last = event.target as HTMLElement))
  // A click beside all controls removes the focus on purpose.
  addEventListener('pointerdown', (event) => (last = (event.target as Element).closest<HTMLElement>(CONTROLS) ?? undefined), true)

  new MutationObserver((records) => {
    const had = last
    if (!had || document.activeElement !== document.body) return
    const lost = records.find(({ removedNodes }) => [...removedNodes].some((node) => node.contains(had)))
    if (!lost || had.closest('dialog:not([open])') || (lost.target as Element).closest('dialog:not([open])')) return
    if (!had.isConnected && had.closest('dialog')) return
    const to = had.isConnected ? had : (nearest(lost, records) ?? document.querySelector('dialog[open] .content') ?? document.getElementById('main'))
    // An open menu that moves with its row is hidden by that.
    const menu = had.isConnected ? had.closest<HTMLElement>('[popover]') : null
    if (menu && !menu.matches(':popover-open')) menu.showPopover()
    if (to instanceof HTMLElement) to.focus({ preventScroll: true })
  }).observe(document.body, { childList: true, subtree: true })
}
