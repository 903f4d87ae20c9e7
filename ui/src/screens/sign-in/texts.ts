/** Texts of the screen that signs a browser in. */
export const signInTexts = {
  title: 'Sign in to Mainstay',
  about: 'One address for all your MCP servers',
  intro: 'Run this command on the machine where Mainstay runs. It opens a link that signs this browser in.',
  command: 'mainstay ui',
  or: 'Or paste the control token. It stands in the file "token" of the state directory.',
  token: 'Control token',
  signIn: 'Sign in',
  signOut: 'Sign out',
  signingIn: 'Signing in…',
  codeFailed: 'This link does not work any more. A link works once, and for 15 minutes.',
  tokenFailed: 'This is not the control token.',
}
