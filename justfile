# The commands people repeat. `just` lists them.

[private]
default:
    @just --list --unsorted

# Serve three small servers that need neither Node nor Python
demo:
    cargo run --release -- serve --demo

# Build the web page of these sources, which the next build of the program embeds
page:
    ui/fresh

# Run everything, or the parts named: lint, unit, fuzz, chaos, floods, long, conformance, outside
test *PARTS:
    ./test {{ PARTS }}

# Formatting and clippy
lint:
    ./test lint

# Format and apply clippy's own fixes
fix:
    cargo fmt --all
    cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged

# Unit, property and integration tests
unit:
    ./test unit

# The MCP conformance suite, directly and through Mainstay
conformance:
    ./test conformance

# Outside clients against outside servers through Mainstay
outside:
    ./test outside

# Measure Mainstay against nginx; the figures go to bench/results
bench *ARGUMENTS:
    bench/run {{ ARGUMENTS }}
