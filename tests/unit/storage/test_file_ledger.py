"""The local engine keeps the contract, and what it promises beyond it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ledger_contract import LedgerContract
from tests.ledger_engines import FileEngine


@pytest.fixture
def engine(tmp_path: Path) -> FileEngine:
    return FileEngine(tmp_path)


class TestFileLedgers(LedgerContract):
    pass
