"""Records of managed ledgers in a metadata store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from anabranch.broker.ledger_records import StoredLedgerRecords, path_of
from anabranch.errors import BadVersion
from anabranch.storage.managed_record import ManagedRecord
from tests.broker_records import memory_store

NAME = "persistent://public/default/orders"
SEGMENT = "segment://public/default/orders/0000-7fff-3"


def with_records(scenario: Callable[[StoredLedgerRecords], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario(StoredLedgerRecords(memory_store()))

    asyncio.run(run())


def test_a_record_is_saved_only_over_the_version_that_was_read() -> None:
    async def scenario(records: StoredLedgerRecords) -> None:
        assert await records.load(NAME) is None
        version = await records.save(NAME, ManagedRecord(epoch=1), -1)
        with pytest.raises(BadVersion):
            await records.save(NAME, ManagedRecord(epoch=2), -1)
        await records.save(NAME, ManagedRecord(epoch=2), version)
        found = await records.load(NAME)
        assert found is not None
        assert found[0].epoch == 2

    with_records(scenario)


def test_deleting_takes_the_names_along_and_may_be_repeated() -> None:
    async def scenario(records: StoredLedgerRecords) -> None:
        version = await records.save(NAME, ManagedRecord(), -1)
        await records.add_cursor_name(NAME, "a/b c", 1)
        assert await records.cursor_names(NAME) == ["a/b c"]
        with pytest.raises(BadVersion):
            await records.delete(NAME, version + 1)
        assert await records.cursor_names(NAME) == ["a/b c"]
        await records.delete(NAME, version)
        await records.delete(NAME, version)
        assert await records.load(NAME) is None
        assert await records.cursor_names(NAME) == []

    with_records(scenario)


def test_a_former_owner_cannot_unlist_what_a_later_one_listed() -> None:
    async def scenario(records: StoredLedgerRecords) -> None:
        await records.add_cursor_name(NAME, "sub", 2)
        await records.remove_cursor_name(NAME, "sub", 1)
        assert await records.cursor_names(NAME) == ["sub"]
        await records.add_cursor_name(NAME, "sub", 1)
        await records.remove_cursor_name(NAME, "sub", 1)
        assert await records.cursor_names(NAME) == ["sub"]
        await records.remove_cursor_name(NAME, "sub", 3)
        await records.remove_cursor_name(NAME, "sub", 3)
        assert await records.cursor_names(NAME) == []

    with_records(scenario)


def test_segments_of_a_topic_have_paths_of_their_own() -> None:
    assert path_of(NAME) == "/managed-ledgers/public/default/persistent/orders"
    assert path_of(SEGMENT) == "/managed-ledgers/public/default/segment/orders%2F0000-7fff-3"
