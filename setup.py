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
SOURCES = {name: f"src/{name.replace('.', '/')}.py" for name in BUILD_MODE["HOT_MODULES"]}


class BuildWithFingerprints(build_ext):
    """Writes down which sources were compiled, so that a newer one is noticed at import."""

    def run(self) -> None:
        in_place = self.editable_mode or self.inplace
        if in_place:
            remove_former_builds()
        super().run()
        record = (ROOT / "src" if in_place else Path(self.build_lib)) / "anabranch/_compiled.json"
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(fingerprints(), indent=1))


def fingerprints() -> dict[str, str]:
    return {
        name: hashlib.sha256((ROOT / path).read_bytes()).hexdigest()
        for name, path in SOURCES.items()
    }


def remove_former_builds() -> None:
    """Were the compiler to fail now, an extension of an older source would pass for a new one."""
    stems = [ROOT / path for path in SOURCES.values()] + [ROOT / "src" / "anabranch_hot__mypyc"]
    for stem in stems:
        for extension in stem.parent.glob(f"{stem.stem}.*.so"):
            extension.unlink()


def extensions() -> list[Any]:
    if os.environ.get("ANABRANCH_PURE") == "1":
        remove_former_builds()
        return []
    from mypyc.build import mypycify

    # One group: modules compiled together call each other in C. The price is that they are
    # replaced by their sources all together, which build_mode does anyway.
    built: list[Any] = mypycify(
        ["--config-file=pyproject.toml", *SOURCES.values()],
        opt_level="3",
        group_name="anabranch_hot",
    )
    for extension in built:
        extension.optional = True
    return built


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildWithFingerprints})
