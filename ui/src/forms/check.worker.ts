/** Checks a value against a schema, apart from the page: a schema may take for ever. */
import { Validator, type OutputUnit, type Schema } from '@cfworker/json-schema'

interface Question {
  schema: Schema
  value: unknown
}

onmessage = (message: MessageEvent<Question>) => {
  const { schema, value } = message.data
  let errors: OutputUnit[] | undefined
  try {
    errors = new Validator(schema, '2020-12', false).validate(value).errors.slice(0, 500)
  } catch {
    // A broken pattern, a reference that leads nowhere or in a circle.
  }
  postMessage(errors)
}
