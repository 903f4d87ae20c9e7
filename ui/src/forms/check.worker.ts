/** Checks a value against a schema, apart from the page: a schema may take for ever. */
import { Validator, type OutputUnit, type Schema } from '@cfworker/json-schema'

/** A schema and a value, as JSON. */
onmessage = (message: MessageEvent<[string, string]>) => {
  const [schema, value] = message.data
  let errors: OutputUnit[] | undefined
  try {
    errors = new Validator(JSON.parse(schema) as Schema, '2020-12', false).validate(JSON.parse(value)).errors.slice(0, 500)
  } catch {
    // A broken pattern, a reference that leads nowhere or in a circle.
  }
  postMessage(errors)
}
