from __future__ import annotations

import asyncio

import pytest

from anabranch.broker.record_update import (
    change_record,
    create_record,
    delete_record,
    load_record,
)
from anabranch.errors import AlreadyExists, Corrupt, NotFound, Unavailable
from anabranch.metadata.store import MetadataStore
from anabranch.topics.json_fields import Fields, Json
from tests.broker_records import contended_store, memory_store

PATH = "/a/b"


def parse(raw: Json, path: str) -> int:
    return Fields(raw, path).integer("n")


def encode(value: int) -> dict[str, Json]:
    return {"n": value}


async def increment(store: MetadataStore) -> int:
    return await change_record(store, PATH, parse, lambda old: old + 1, encode, "the counter")


async def rival(store: MetadataStore) -> None:
    await increment(store)


def test_record_is_created_changed_and_deleted() -> None:
    async def scenario() -> None:
        store = memory_store()
        assert await load_record(store, PATH, parse) is None
        await create_record(store, PATH, encode(1), "the counter")
        with pytest.raises(AlreadyExists, match="the counter exists already"):
            await create_record(store, PATH, encode(5), "the counter")
        assert await increment(store) == 2
        assert await load_record(store, PATH, parse) == 2
        await delete_record(store, PATH, "the counter")
        with pytest.raises(NotFound, match="the counter does not exist"):
            await delete_record(store, PATH, "the counter")
        with pytest.raises(NotFound, match="the counter does not exist"):
            await increment(store)

    asyncio.run(scenario())


def test_lost_race_is_run_again_on_the_new_value() -> None:
    async def scenario() -> None:
        store = contended_store()
        await create_record(store, PATH, encode(0), "the counter")
        store.rivals = [rival] * 3
        assert await increment(store) == 4

    asyncio.run(scenario())


def test_races_lost_for_ever_end_in_an_error() -> None:
    async def scenario() -> None:
        store = contended_store()
        await create_record(store, PATH, encode(0), "the counter")
        store.rivals = [rival] * 16
        with pytest.raises(Unavailable, match="16 times"):
            await increment(store)

    asyncio.run(scenario())


def test_change_to_the_same_writes_nothing() -> None:
    async def scenario() -> None:
        store = memory_store()
        await create_record(store, PATH, encode(0), "the counter")
        before = await store.get(PATH)
        await change_record(store, PATH, parse, lambda old: old, encode, "the counter")
        assert await store.get(PATH) == before

    asyncio.run(scenario())


def test_record_that_cannot_be_read_is_corrupt() -> None:
    async def scenario() -> None:
        store = memory_store()
        await store.put(PATH, b"not json", None)
        with pytest.raises(Corrupt, match=PATH):
            await load_record(store, PATH, parse)

    asyncio.run(scenario())
