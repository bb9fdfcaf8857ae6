"""The import table of ARCHITECTURE.md, and who may touch the outside world, held by a test."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "anabranch"

GROUND = {"errors", "runtime", "topics"}
MAY_IMPORT = {
    "errors": set[str](),
    "runtime": {"errors"},
    "topics": {"errors"},
    "protocol": GROUND,
    "metadata": GROUND,
    "storage": GROUND,
    "controller": {"metadata"} | GROUND,
    "client": {"protocol"} | GROUND,
    "broker": {"controller", "metadata", "protocol", "storage"} | GROUND,
    "spark": {"client"} | GROUND,
    "admin": {"broker", "client", "controller", "metadata"} | GROUND,
    "console": set[str](),
}
# Everything through which time, chance, files, sockets and threads reach a Python program.
WORLD = {
    "concurrent", "fcntl", "glob", "io", "mmap", "multiprocessing", "os", "pathlib", "random",
    "secrets", "select", "selectors", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess",
    "tempfile", "threading", "time", "uuid",
}  # fmt: skip
WORLD_CALLS = {"open", "input", "print"}
# The process edge: arguments, exit codes and the console are the CLI's own business.
EDGES = {"runtime", "cli", "node", "__init__", "__main__"}


def folder_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def sources() -> list[Path]:
    return [path for path in PACKAGE.rglob("*.py") if not path.name.endswith("_pb2.py")]


def imported_modules(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def imported_folders(path: Path) -> set[str]:
    return {
        name.split(".")[1]
        for name in imported_modules(path)
        if name.startswith("anabranch.") and name.count(".") >= 1
    }


@pytest.mark.parametrize("folder", sorted(MAY_IMPORT))
def test_folder_imports_only_what_the_map_allows(folder: str) -> None:
    for path in sources():
        if folder_of(path) == folder:
            assert imported_folders(path) <= MAY_IMPORT[folder] | {folder}, path


def test_every_folder_is_on_the_map() -> None:
    known = set(MAY_IMPORT) | EDGES
    assert {folder_of(path) for path in sources()} <= known


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_runtime_touches_the_outside_world(path: Path) -> None:
    if folder_of(path) in EDGES:
        return
    outside = {name.split(".")[0] for name in imported_modules(path)} & WORLD
    assert not outside, f"{path} imports {outside}; ask runtime/ instead"
    called = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & WORLD_CALLS, f"{path} calls {called & WORLD_CALLS}; ask runtime/ instead"


def test_the_rule_against_the_outside_world_would_notice(tmp_path: Path) -> None:
    offender = tmp_path / "offender.py"
    offender.write_text("import time\nfrom os import path\n")
    assert {name.split(".")[0] for name in imported_modules(offender)} & WORLD == {"time", "os"}
