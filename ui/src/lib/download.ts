/** Has the browser save something under a name. It has a type that no program runs. */
export function download(content: BlobPart, name: string): void {
  const address = URL.createObjectURL(new Blob([content], { type: 'application/octet-stream' }))
  const link = document.createElement('a')
  link.href = address
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(address), 10_000)
}
