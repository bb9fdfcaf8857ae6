"""Whether the hot modules run compiled, and a guard against running yesterday's build.

The modules of HOT_MODULES are ordinary Python that mypyc compiles at build time. An editable
install leaves the shared objects beside the sources, where Python prefers them, so an edit would
be ignored without a word. The build therefore writes the digest of every source it compiled, and
`choose()`, which `anabranch/__init__.py` calls before anything else is imported, compares. If one
source is newer than its build, all hot modules are loaded from source, and a warning says so.

This file also runs alone (setup.py reads HOT_MODULES from it), so it imports nothing of ours.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from types import ModuleType

HOT_MODULES = (
    "anabranch.protocol.batch_codec",
    "anabranch.protocol.varints",
    "anabranch.protocol.wire_codec",
    "anabranch.protocol.wire_writer",
    "anabranch.storage.record_codec",
    "anabranch.topics.murmur3",
)

_PACKAGE = Path(__file__).resolve().parent.parent


class _SourceFinder(MetaPathFinder):
    """Finds hot modules as source files, ahead of the extensions that lie beside them."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname not in HOT_MODULES:
            return None
        return importlib.util.spec_from_file_location(fullname, _source_of(fullname))


def choose() -> None:
    """Called once, before any hot module is imported: compiled, unless that would be wrong."""
    if os.environ.get("ANABRANCH_PURE") == "1":
        sys.meta_path.insert(0, _SourceFinder())
        return
    stale = stale_modules()
    if stale:
        warnings.warn(
            f"{', '.join(stale)} changed since they were compiled: "
            "running all hot modules from source; 'make setup' compiles them again",
            RuntimeWarning,
            stacklevel=2,
        )
        sys.meta_path.insert(0, _SourceFinder())


def loaded_mode() -> str:
    """`compiled`, `interpreted`, or `mixed`: what --version and the stats report."""
    compiled = [_is_compiled(name) for name in HOT_MODULES]
    if all(compiled):
        return "compiled"
    return "mixed" if any(compiled) else "interpreted"


def stale_modules() -> list[str]:
    """Hot modules that have a shared object built from another source than the one present."""
    record = _PACKAGE / "_compiled.json"
    digests: dict[str, str] = json.loads(record.read_text()) if record.exists() else {}
    return [
        name
        for name in HOT_MODULES
        if _has_extension(name)
        and _source_of(name).exists()
        and digests.get(name) != hashlib.sha256(_source_of(name).read_bytes()).hexdigest()
    ]


def _is_compiled(name: str) -> bool:
    module = importlib.import_module(name)
    return not (module.__file__ or "").endswith(".py")


def _source_of(name: str) -> Path:
    return _PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py")


def _has_extension(name: str) -> bool:
    stem = _PACKAGE.joinpath(*name.split(".")[1:])
    return any(stem.with_name(stem.name + suffix).exists() for suffix in EXTENSION_SUFFIXES)
