"""Every mistake in a configuration is reported, and at once."""

from __future__ import annotations

import pytest

from anabranch.errors import InvalidInput
from anabranch.storage.engine_config import EngineConfig


def test_the_defaults_are_valid() -> None:
    config = EngineConfig()
    assert config.ledger_path(255) == "storage/ledgers/00000000000000ff"
    assert config.index_path(255) == "storage/ledgers/00000000000000ff.index"
    assert config.journal_path(1) == "storage/journal/0000000000000001"


def test_all_mistakes_are_named_together() -> None:
    with pytest.raises(InvalidInput) as caught:
        EngineConfig(journal_files=1, cache_bytes=-1, retry_seconds=0, directory="")
    for name in ("journal_files is 1", "cache_bytes is -1", "retry_seconds", "directory"):
        assert name in str(caught.value)


def test_the_largest_entry_fits_a_journal_file_with_its_group() -> None:
    assert EngineConfig(journal_file_bytes=5000).largest_entry_bytes == 5000 - 96
