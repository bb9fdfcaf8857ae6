"""Fuzz protocol/ with Atheris: python -m tests.fuzz CORPUS [libFuzzer options]

Atheris is not among the pinned requirements, since it has no build for every Python; `pip install
atheris` on CPython 3.11 brings it. Set ANABRANCH_PURE=1: only interpreted code can be watched.
"""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType

import atheris

with atheris.instrument_imports(include=["anabranch", "tests"]):
    from anabranch.protocol import batch_codec, wire_codec
    from tests.fuzz.fuzz_protocol import one_input


def instrument(module: ModuleType) -> None:
    """The hot modules have an import hook of their own, ahead of Atheris's."""
    for value in list(vars(module).values()):
        if isinstance(value, FunctionType) and value.__module__ == module.__name__:
            atheris.instrument_func(value)


if __name__ == "__main__":
    instrument(batch_codec)
    instrument(wire_codec)
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
