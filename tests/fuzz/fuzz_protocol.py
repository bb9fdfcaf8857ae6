"""Fuzz protocol/ with Atheris, guided by coverage: `make fuzz`, or

    ANABRANCH_PURE=1 PYTHONPATH=src:. python tests/fuzz/fuzz_protocol.py CORPUS [libFuzzer options]

What is called, and what must hold, is in protocol_readers.py. Atheris is not among the pinned
requirements, since it has no build for every Python. Only interpreted code can be watched, hence
ANABRANCH_PURE. New inputs go into the first corpus folder.
"""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType


def instrument(module: ModuleType) -> None:
    """The hot modules have an import hook of their own, ahead of Atheris's."""
    import atheris

    for value in list(vars(module).values()):
        if isinstance(value, FunctionType) and value.__module__ == module.__name__:
            atheris.instrument_func(value)


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["anabranch", "tests"]):
        from anabranch.protocol import batch_codec, varints, wire_codec
        from tests.fuzz.protocol_readers import one_input
    instrument(batch_codec)
    instrument(varints)
    instrument(wire_codec)
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
