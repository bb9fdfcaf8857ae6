from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from anabranch.broker.partitions import MAX_PARTITIONS, PartitionedTopic, PartitionedTopics
from anabranch.errors import (
    AlreadyExists,
    Corrupt,
    InvalidInput,
    InvalidName,
    NotAllowed,
    NotFound,
)
from anabranch.metadata.store import MetadataStore
from anabranch.topics.names import Domain, NamespaceName, parse_topic_name
from tests.broker_records import contended_store, memory_store

SPACE = NamespaceName("t", "n")
TOPIC = parse_topic_name("persistent://t/n/a b")


def run(scenario: Callable[[PartitionedTopics], Awaitable[None]]) -> None:
    async def play() -> None:
        await scenario(PartitionedTopics(memory_store(), max_partitions=100))

    asyncio.run(play())


def test_partitioned_topic_is_created_once_and_listed_by_its_name() -> None:
    async def scenario(topics: PartitionedTopics) -> None:
        assert await topics.get(TOPIC) is None
        await topics.create(TOPIC, 4, {"team": "a"})
        assert await topics.get(TOPIC) == PartitionedTopic(4, {"team": "a"})
        assert await topics.of_namespace(SPACE) == [TOPIC]
        assert await topics.of_namespace(SPACE, Domain.NON_PERSISTENT) == []
        with pytest.raises(AlreadyExists, match="a b"):
            await topics.create(TOPIC, 4)

    run(scenario)


def test_partitions_are_only_added() -> None:
    async def scenario(topics: PartitionedTopics) -> None:
        await topics.create(TOPIC, 4)
        assert (await topics.grow(TOPIC, 4)).partitions == 4
        assert (await topics.grow(TOPIC, 6)).partitions == 6
        with pytest.raises(InvalidInput, match="has 6 partitions and cannot have 5"):
            await topics.grow(TOPIC, 5)

    run(scenario)


def test_growth_is_measured_against_what_a_rival_made_of_it() -> None:
    async def scenario() -> None:
        store = contended_store()

        async def rival(other: MetadataStore) -> None:
            await PartitionedTopics(other).grow(TOPIC, 10)

        topics = PartitionedTopics(store)
        await topics.create(TOPIC, 4)
        store.rivals = [rival]
        with pytest.raises(InvalidInput, match="has 10 partitions"):
            await topics.grow(TOPIC, 6)

    asyncio.run(scenario())


@pytest.mark.parametrize("count", [-1, 0, 101])
def test_number_of_partitions_has_limits(count: int) -> None:
    async def scenario(topics: PartitionedTopics) -> None:
        with pytest.raises(InvalidInput, match="1 to 100"):
            await topics.create(TOPIC, count)

    run(scenario)


def test_without_a_configured_limit_there_is_a_sane_one() -> None:
    async def scenario() -> None:
        with pytest.raises(InvalidInput, match=str(MAX_PARTITIONS)):
            await PartitionedTopics(memory_store()).create(TOPIC, MAX_PARTITIONS + 1)

    asyncio.run(scenario())


def test_what_does_not_exist_is_not_found() -> None:
    async def scenario(topics: PartitionedTopics) -> None:
        with pytest.raises(NotFound, match="a b"):
            await topics.grow(TOPIC, 5)
        with pytest.raises(NotFound, match="a b"):
            await topics.delete(TOPIC)
        with pytest.raises(NotFound, match="a b"):
            await topics.mark_deleted(TOPIC)

    run(scenario)


def test_topic_on_its_way_out_does_not_change_any_more() -> None:
    async def scenario(topics: PartitionedTopics) -> None:
        await topics.create(TOPIC, 4)
        await topics.mark_deleted(TOPIC)
        assert (await topics.mark_deleted(TOPIC)).is_deleted
        with pytest.raises(NotFound, match="being deleted"):
            await topics.grow(TOPIC, 5)
        assert await topics.of_namespace(SPACE) == [TOPIC]
        await topics.delete(TOPIC)
        assert await topics.of_namespace(SPACE) == []

    run(scenario)


def test_properties_change_alone() -> None:
    async def scenario(topics: PartitionedTopics) -> None:
        await topics.create(TOPIC, 4, {"a": "1"})
        found = await topics.update_properties(TOPIC, lambda old: {**old, "b": "2"})
        assert found == PartitionedTopic(4, {"a": "1", "b": "2"})

    run(scenario)


def test_partitions_and_scalable_topics_have_no_partitions() -> None:
    async def scenario(topics: PartitionedTopics) -> None:
        await topics.create(TOPIC, 4)
        assert await topics.get(TOPIC.of_partition(2)) is None
        with pytest.raises(InvalidName, match="is a partition itself"):
            await topics.create(TOPIC.of_partition(2), 4)
        for name in ("topic://t/n/a b", "segment://t/n/a b/0000-ffff-0"):
            assert await topics.get(parse_topic_name(name)) is None
            with pytest.raises(NotAllowed, match="have no partitions"):
                await topics.create(parse_topic_name(name), 4)

    run(scenario)


def test_damaged_record_is_corrupt() -> None:
    async def scenario() -> None:
        store = memory_store()
        await store.put("/admin/partitioned-topics/t/n/persistent/a+b", b"{}", None)
        with pytest.raises(Corrupt, match="partitions: missing"):
            await PartitionedTopics(store).get(TOPIC)

    asyncio.run(scenario())
