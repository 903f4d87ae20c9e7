import { mount } from 'svelte'
import './styles/tokens.css'
import './styles/base.css'
import App from './App.svelte'
import { keepFocus } from './lib/focus'

const target = document.getElementById('app')
if (target) {
  keepFocus()
  mount(App, { target })
}
