"""Every engine of this build against the one contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.metadata_contract import EngineUnderTest, MetadataContract
from tests.metadata_engines import (
    CachedMemoryEngine,
    MemoryEngine,
    SharedSqliteEngine,
    SqliteEngine,
)


class TestMemory(MetadataContract):
    @pytest.fixture
    def engine(self) -> EngineUnderTest:
        return MemoryEngine()


class TestCache(MetadataContract):
    @pytest.fixture
    def engine(self) -> EngineUnderTest:
        return CachedMemoryEngine()


class TestSqlite(MetadataContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> EngineUnderTest:
        return SqliteEngine(tmp_path)


class TestSharedSqlite(MetadataContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> EngineUnderTest:
        return SharedSqliteEngine(tmp_path)
