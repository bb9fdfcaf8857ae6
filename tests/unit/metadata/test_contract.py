"""Every engine of this build against the one contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.metadata_contract import EngineUnderTest, MetadataContract
from tests.metadata_engines import MemoryEngine, SqliteEngine


class TestMemory(MetadataContract):
    @pytest.fixture
    def engine(self) -> EngineUnderTest:
        return MemoryEngine()


class TestSqlite(MetadataContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> EngineUnderTest:
        return SqliteEngine(tmp_path)
