from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from anabranch.broker.schemas import registry as registry_module
from anabranch.broker.schemas.compatibility import Strategy
from anabranch.broker.schemas.registry import SchemaRegistry, SchemaRules
from anabranch.broker.schemas.schema_info import SchemaInfo, SchemaType
from anabranch.errors import (
    IncompatibleSchema,
    InvalidInput,
    NotAllowed,
    NotFound,
    Unavailable,
)
from anabranch.metadata.store import MetadataStore
from anabranch.topics.names import parse_topic_name
from tests.broker_records import contended_store, memory_store
from tests.managed_world import ManualClock
from tests.schema_examples import avro, avro_field, plain

T = TypeVar("T")
TOPIC = parse_topic_name("persistent://public/default/orders")
OTHER = parse_topic_name("persistent://public/default/other")
ID = avro_field("id", "int")
V1 = avro(ID)
V2 = avro(ID, avro_field("price", "int", default=0))
V3 = avro(ID, avro_field("name", "string", default=""))
BROKEN = avro(ID, avro_field("price", "int"))
NOT_AVRO = SchemaInfo(SchemaType.AVRO, b"{")
AUTO = plain(SchemaType.AUTO_CONSUME)
FULL = SchemaRules()


def run(scenario: Callable[[SchemaRegistry], Awaitable[T]]) -> T:
    async def play() -> T:
        return await scenario(SchemaRegistry(memory_store(), ManualClock()))

    return asyncio.run(play())


def test_versions_count_from_zero_for_each_topic() -> None:
    async def scenario(registry: SchemaRegistry) -> None:
        assert await registry.register(TOPIC, V1, FULL) == 0
        assert await registry.register(TOPIC, V2, FULL) == 1
        assert await registry.register(OTHER, V2, FULL) == 0

    run(scenario)


def test_schema_that_is_there_keeps_its_version() -> None:
    async def scenario(registry: SchemaRegistry) -> None:
        await registry.register(TOPIC, V1, FULL)
        await registry.register(TOPIC, V2, FULL)
        assert await registry.register(TOPIC, V1, FULL) == 0
        assert await registry.find(TOPIC, V2) == 1
        assert await registry.find(TOPIC, V3) is None
        assert len(await registry.history(TOPIC)) == 2

    run(scenario)


def test_versions_can_be_read_one_by_one() -> None:
    async def scenario(registry: SchemaRegistry) -> None:
        assert await registry.latest(TOPIC) is None
        await registry.register(TOPIC, V1, FULL)
        await registry.register(TOPIC, V2, FULL)
        latest, first = await registry.latest(TOPIC), await registry.get(TOPIC, 0)
        assert latest is not None
        assert first is not None
        assert (latest.version, latest.schema) == (1, V2)
        assert first.schema == V1
        assert await registry.get(TOPIC, 2) is None
        assert await registry.get(TOPIC, -1) is None
        assert await registry.get(TOPIC, 1 << 62) is None

    run(scenario)


def test_partitions_and_segments_share_the_schema_of_their_topic() -> None:
    async def scenario(registry: SchemaRegistry) -> None:
        await registry.register(TOPIC.of_partition(3), V1, FULL)
        found = await registry.latest(
            parse_topic_name("segment://public/default/orders/0000-ffff-0")
        )
        assert found is not None

    run(scenario)


def test_incompatible_schema_is_refused_and_leaves_nothing() -> None:
    async def scenario(registry: SchemaRegistry) -> None:
        await registry.register(TOPIC, V1, FULL)
        with pytest.raises(IncompatibleSchema, match="price"):
            await registry.register(TOPIC, BROKEN, FULL)
        with pytest.raises(IncompatibleSchema):
            await registry.check(TOPIC, BROKEN, Strategy.FULL)
        await registry.check(TOPIC, BROKEN, Strategy.FORWARD)
        assert len(await registry.history(TOPIC)) == 1

    run(scenario)


def test_policy_may_freeze_the_schemas_of_a_topic() -> None:
    async def scenario(registry: SchemaRegistry) -> None:
        frozen = SchemaRules(is_update_allowed=False)
        await registry.register(TOPIC, V1, FULL)
        assert await registry.register(TOPIC, V1, frozen) == 0
        with pytest.raises(IncompatibleSchema, match="does not let clients add"):
            await registry.register(TOPIC, V2, frozen)

    run(scenario)


def test_deleted_schema_is_gone_but_its_versions_stay_readable() -> None:
    async def scenario(registry: SchemaRegistry) -> None:
        await registry.register(TOPIC, V1, FULL)
        assert await registry.delete(TOPIC) == 1
        assert await registry.latest(TOPIC) is None
        assert await registry.find(TOPIC, V1) is None
        old = await registry.get(TOPIC, 0)
        assert old is not None
        assert old.schema == V1
        assert await registry.get(TOPIC, 1) is None
        with pytest.raises(NotFound):
            await registry.delete(TOPIC)

    run(scenario)


def test_deletion_takes_what_was_registered_meanwhile_along() -> None:
    async def scenario() -> None:
        store = contended_store()
        registry = SchemaRegistry(store, ManualClock())
        await registry.register(TOPIC, V1, FULL)

        async def rival(other: MetadataStore) -> None:
            await SchemaRegistry(other, ManualClock()).register(TOPIC, V2, FULL)

        store.rivals = [rival]
        assert await registry.delete(TOPIC) == 2
        assert await registry.latest(TOPIC) is None

    asyncio.run(scenario())


def test_after_a_deletion_anything_goes_and_numbers_go_on() -> None:
    async def scenario(registry: SchemaRegistry) -> None:
        await registry.register(TOPIC, V1, FULL)
        await registry.delete(TOPIC)
        assert await registry.register(TOPIC, plain(SchemaType.STRING), FULL) == 2
        assert await registry.register(TOPIC, plain(SchemaType.STRING), FULL) == 2

    run(scenario)


def test_forgotten_topic_begins_anew() -> None:
    async def scenario(registry: SchemaRegistry) -> None:
        await registry.register(TOPIC, V1, FULL)
        await registry.forget(TOPIC)
        assert await registry.history(TOPIC) == []
        assert await registry.register(TOPIC, BROKEN, FULL) == 0

    run(scenario)


@pytest.mark.parametrize("kind", [SchemaType.NONE, SchemaType.BYTES, SchemaType.AUTO_CONSUME])
def test_no_schema_and_any_schema_are_never_registered(kind: SchemaType) -> None:
    async def scenario(registry: SchemaRegistry) -> None:
        with pytest.raises(InvalidInput, match=kind.value):
            await registry.register(TOPIC, plain(kind), FULL)

    run(scenario)


def test_of_two_at_the_same_time_the_second_is_checked_against_the_first() -> None:
    async def scenario() -> None:
        store = contended_store()

        async def rival(other: MetadataStore) -> None:
            await SchemaRegistry(other, ManualClock()).register(TOPIC, V1, FULL)

        store.rivals = [rival]
        with pytest.raises(IncompatibleSchema):
            await SchemaRegistry(store, ManualClock()).register(TOPIC, BROKEN, FULL)

    asyncio.run(scenario())


def test_the_same_schema_from_two_at_the_same_time_is_one_version() -> None:
    async def scenario() -> None:
        store = contended_store()

        async def rival(other: MetadataStore) -> None:
            await SchemaRegistry(other, ManualClock()).register(TOPIC, V1, FULL)

        store.rivals = [rival]
        registry = SchemaRegistry(store, ManualClock())
        assert await registry.register(TOPIC, V1, FULL) == 0
        assert len(await registry.history(TOPIC)) == 1

    asyncio.run(scenario())


def test_who_always_loses_gives_up() -> None:
    async def scenario() -> None:
        store = contended_store()

        def rival(number: int) -> Callable[[MetadataStore], Awaitable[None]]:
            async def act(other: MetadataStore) -> None:
                schema = avro(ID, avro_field(f"f{number}", "int", default=0))
                await SchemaRegistry(other, ManualClock()).register(TOPIC, schema, FULL)

            return act

        store.rivals = [rival(number) for number in range(100)]
        with pytest.raises(Unavailable, match="16 times"):
            await SchemaRegistry(store, ManualClock()).register(TOPIC, V1, FULL)

    asyncio.run(scenario())


def test_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(registry: SchemaRegistry) -> None:
        await registry.register(TOPIC, V1, FULL)
        monkeypatch.setattr(registry_module, "MAX_VERSIONS", 1)
        with pytest.raises(NotAllowed, match="1 schema versions"):
            await registry.register(TOPIC, V2, FULL)
        monkeypatch.setattr(registry_module, "MAX_HISTORY_BYTES", len(V1.data))
        with pytest.raises(NotAllowed, match="bytes"):
            await registry.register(TOPIC, V2, FULL)

    run(scenario)


def test_producer_registers_its_schema_and_learns_the_version() -> None:
    async def scenario(registry: SchemaRegistry) -> None:
        assert await registry.admit_producer(TOPIC, V1, FULL) == 0
        with pytest.raises(IncompatibleSchema):
            await registry.admit_producer(TOPIC, BROKEN, FULL)
        assert await registry.admit_producer(TOPIC, V2, FULL) == 1
        with pytest.raises(IncompatibleSchema, match="not an Avro schema"):
            await registry.admit_producer(TOPIC, NOT_AVRO, FULL)

    run(scenario)


@pytest.mark.parametrize("schema", [None, plain(SchemaType.NONE), plain(SchemaType.BYTES)])
def test_producer_without_schema_is_let_in_unless_validation_is_enforced(
    schema: SchemaInfo | None,
) -> None:
    async def scenario(registry: SchemaRegistry) -> None:
        strict = SchemaRules(is_enforced=True)
        assert await registry.admit_producer(TOPIC, schema, strict) is None
        await registry.register(TOPIC, V1, FULL)
        assert await registry.admit_producer(TOPIC, schema, FULL) is None
        with pytest.raises(IncompatibleSchema, match="must bring its schema"):
            await registry.admit_producer(TOPIC, schema, strict)

    run(scenario)


def test_producer_of_any_schema_gets_the_one_of_the_topic() -> None:
    async def scenario(registry: SchemaRegistry) -> None:
        assert await registry.admit_producer(TOPIC, AUTO, FULL) is None
        await registry.register(TOPIC, V1, FULL)
        assert await registry.admit_producer(TOPIC, AUTO, FULL) == 0

    run(scenario)


def test_schema_of_the_first_consumer_becomes_that_of_an_idle_topic() -> None:
    async def scenario(registry: SchemaRegistry) -> None:
        await registry.admit_consumer(TOPIC, V1, FULL, topic_in_use=False)
        found = await registry.latest(TOPIC)
        assert found is not None
        assert found.schema == V1

    run(scenario)


def test_consumer_is_checked_and_registers_nothing_on_a_topic_in_use() -> None:
    async def scenario(registry: SchemaRegistry) -> None:
        with pytest.raises(IncompatibleSchema, match="has no schema"):
            await registry.admit_consumer(TOPIC, V1, FULL, topic_in_use=True)
        await registry.register(TOPIC, V1, FULL)
        await registry.admit_consumer(TOPIC, V2, FULL, topic_in_use=False)
        with pytest.raises(IncompatibleSchema, match="cannot read"):
            await registry.admit_consumer(TOPIC, BROKEN, FULL, topic_in_use=True)
        with pytest.raises(IncompatibleSchema, match="not an Avro schema"):
            await registry.admit_consumer(TOPIC, NOT_AVRO, FULL, topic_in_use=True)
        assert len(await registry.history(TOPIC)) == 1

    run(scenario)


@pytest.mark.parametrize("schema", [None, AUTO, plain(SchemaType.BYTES)])
def test_consumer_of_any_schema_or_none_is_let_in(schema: SchemaInfo | None) -> None:
    async def scenario(registry: SchemaRegistry) -> None:
        await registry.admit_consumer(TOPIC, schema, FULL, topic_in_use=True)
        await registry.register(TOPIC, V1, FULL)
        await registry.admit_consumer(TOPIC, schema, FULL, topic_in_use=True)
        assert len(await registry.history(TOPIC)) == 1

    run(scenario)
