"""Build the hot modules with mypyc, each an optional extension.

Everything else about the package is in pyproject.toml. A machine without a C compiler gets the
same package, running the same sources interpreted; ANABRANCH_PURE=1 asks for that on purpose.
"""

from __future__ import annotations

import hashlib
import json
import os
import runpy
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
BUILD_MODE = runpy.run_path(str(ROOT / "src/anabranch/runtime/build_mode.py"))
SOURCES = {
    name: f"src/{name.replace('.', '/')}.py"
    for name in BUILD_MODE["HOT_MODULES"]
    if (ROOT / f"src/{name.replace('.', '/')}.py").exists()
}


class BuildWithFingerprints(build_ext):
    """Writes down which sources were compiled, so that a newer one is noticed at import."""

    def run(self) -> None:
        super().run()
        base = ROOT / "src" if self.editable_mode or self.inplace else Path(self.build_lib)
        digests = {
            name: hashlib.sha256((ROOT / path).read_bytes()).hexdigest()
            for name, path in SOURCES.items()
        }
        record = base / "anabranch" / "_compiled.json"
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(digests, indent=1))


def extensions() -> list[Any]:
    if os.environ.get("ANABRANCH_PURE") == "1":
        return []
    from mypyc.build import mypycify

    built: list[Any] = []
    for path in SOURCES.values():
        # One call each: modules compiled together would share a library and could not be
        # replaced one at a time by their sources.
        built += mypycify(["--config-file=pyproject.toml", path], opt_level="3")
    for extension in built:
        extension.optional = True
    return built


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildWithFingerprints})
