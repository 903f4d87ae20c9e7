"""The attacks, by chapter. An attack is a function that takes a Home and asserts that Mainstay held."""

from . import access, costs, limits, logs, messages, names, page, processes, records, references, state, terminal


def _attacks(module):
    """The public functions that a module itself defines, in their order."""
    return [
        it
        for name, it in vars(module).items()
        if callable(it) and not name.startswith("_") and getattr(it, "__module__", "") == module.__name__
    ]


CHAPTERS = [
    (module.__name__.rpartition(".")[2], _attacks(module))
    for module in (names, messages, references, access, page, costs, limits, processes, logs, records, state, terminal)
]
