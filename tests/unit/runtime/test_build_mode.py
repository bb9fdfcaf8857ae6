"""Compiled or not, and never yesterday's build: each case in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import anabranch

PACKAGE = Path(anabranch.__file__).parent
REPORT = (
    "from anabranch.runtime import build_mode as b; "
    "import anabranch.topics.murmur3 as m; print(b.loaded_mode(), m.__file__)"
)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The package as an editable install leaves it, with whatever extensions were built."""
    shutil.copytree(PACKAGE, tmp_path / "anabranch", ignore=shutil.ignore_patterns("__pycache__"))
    for group in PACKAGE.parent.glob("anabranch_hot__mypyc.*.so"):
        shutil.copy(group, tmp_path)
    return tmp_path / "anabranch"


def report(copied: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {key: value for key, value in os.environ.items() if key != "ANABRANCH_PURE"}
    return subprocess.run(
        [sys.executable, "-c", REPORT],
        env=plain | {"PYTHONPATH": str(copied.parent)} | environment,
        cwd=copied.parent,
        capture_output=True,
        text=True,
        check=True,
    )


def require_compiled(copied: Path) -> None:
    if not list(copied.glob("topics/murmur3*.so")):
        pytest.skip("no compiler built the hot modules here")


def test_compiled_modules_are_used_when_they_match_their_sources(copied: Path) -> None:
    require_compiled(copied)
    answer = report(copied)
    assert answer.stdout.startswith("compiled ")
    assert answer.stderr == ""


def test_an_edited_source_runs_instead_of_its_stale_build_and_says_so(copied: Path) -> None:
    require_compiled(copied)
    source = copied / "topics" / "murmur3.py"
    source.write_text(source.read_text() + "\n# edited\n")
    answer = report(copied)
    assert answer.stdout.split() == ["interpreted", str(source)]
    assert "anabranch.topics.murmur3 changed since they were compiled" in answer.stderr
    assert "make setup" in answer.stderr


def test_a_build_without_its_record_of_sources_is_not_trusted(copied: Path) -> None:
    require_compiled(copied)
    (copied / "_compiled.json").unlink()
    assert report(copied).stdout.startswith("interpreted ")


def test_the_environment_switch_runs_the_sources_without_a_word(copied: Path) -> None:
    answer = report(copied, ANABRANCH_PURE="1")
    assert answer.stdout.startswith("interpreted ")
    assert answer.stderr == ""


def test_without_extensions_the_sources_run(copied: Path) -> None:
    for extension in copied.parent.rglob("*.so"):
        extension.unlink()
    answer = report(copied)
    assert answer.stdout.startswith("interpreted ")
    assert answer.stderr == ""
