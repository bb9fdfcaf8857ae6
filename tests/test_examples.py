"""Every example runs, and says that it passed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SMALL = {"durable_log.py": ["--rounds", "2"], "first_messages.py": ["--orders", "800"]}


def test_every_example_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SMALL)


@pytest.mark.parametrize("name", sorted(SMALL))
def test_example_passes(name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *SMALL[name]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED" in done.stdout


def test_the_durable_log_refuses_a_directory_in_use(tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "durable_log.py"), "--directory", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "is not empty" in done.stderr
