"""Topics that come and go while others ask for them."""

from __future__ import annotations

import asyncio

import pytest

from anabranch.broker.topic_lifecycle import delete_topic, open_one, topics_under
from anabranch.errors import AlreadyExists, NotAllowed, NotSupported, TopicNotFound
from anabranch.topics.names import parse_topic_name
from tests.admin_world import SPACE, AdminWorld, play

X = parse_topic_name(f"persistent://{SPACE}/x")
P = parse_topic_name(f"persistent://{SPACE}/p")


def test_whoever_asks_for_a_topic_that_is_being_deleted_gets_a_new_one() -> None:
    async def scenario(world: AdminWorld) -> None:
        old = await world.publish(3)
        ending = asyncio.create_task(delete_topic(world.broker, X))
        await asyncio.sleep(0)
        new = await world.topic()
        await ending
        assert new is not old
        assert new.ledger.first_position is None
        assert new.ledger.ended_by is None

    play(scenario)


def test_whoever_asks_for_a_topic_that_is_being_unloaded_gets_all_of_it() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(3)
        ending = asyncio.create_task(world.broker.catalogue.topics.unload(X))
        await asyncio.sleep(0)
        new = await world.topic()
        await ending
        assert new.ledger.spans().total == 3
        assert new.ledger.ended_by is None

    play(scenario)


def test_two_deletions_end_it_once() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(3)
        found = await asyncio.gather(
            delete_topic(world.broker, X), delete_topic(world.broker, X), return_exceptions=True
        )
        assert found.count(None) == 1
        assert any(isinstance(each, TopicNotFound) for each in found)

    play(scenario)


def test_a_topic_is_made_once() -> None:
    async def scenario(world: AdminWorld) -> None:
        topics = world.broker.catalogue.topics
        found = await asyncio.gather(topics.create(X), topics.create(X), return_exceptions=True)
        assert [type(each) for each in found if each is not None] == [AlreadyExists]

    play(scenario)


def test_a_name_stands_for_its_partitions_or_itself() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", f"/persistent/{SPACE}/p/partitions", 2)
        assert await topics_under(world.broker, P) == [P.of_partition(0), P.of_partition(1)]
        assert await topics_under(world.broker, P.of_partition(1)) == [P.of_partition(1)]
        with pytest.raises(TopicNotFound):
            await topics_under(world.broker, X)
        with pytest.raises(TopicNotFound):
            await topics_under(world.broker, P.of_partition(2))
        with pytest.raises(NotSupported, match="2 partitions"):
            await open_one(world.broker, P)

    play(scenario)


def test_a_growth_that_was_interrupted_is_finished_by_asking_again() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", f"/persistent/{SPACE}/p/partitions", 1)
        await world.broker.catalogue.partitioned.grow(P, 3)  # and then it crashed
        await world.done("POST", f"/persistent/{SPACE}/p/partitions", 3)
        assert len(await world.ask(f"/persistent/{SPACE}")) == 3

    play(scenario)


def test_a_deletion_that_was_interrupted_is_finished_by_asking_again() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", f"/persistent/{SPACE}/p/partitions", 3)
        await world.broker.catalogue.partitioned.mark_deleted(P)
        await delete_topic(world.broker, P.of_partition(1))  # and then it crashed
        await world.done("DELETE", f"/persistent/{SPACE}/p/partitions")
        assert await world.ask(f"/persistent/{SPACE}") == []

    play(scenario)


def test_a_policy_that_changes_during_a_load_is_not_missed() -> None:
    async def scenario(world: AdminWorld) -> None:
        topics = world.broker.catalogue.topics
        await topics.create(X)
        loading = asyncio.create_task(world.topic())
        for _ in range(3):
            await asyncio.sleep(0)
        await world.done("POST", f"/namespaces/{SPACE}/maxProducersPerTopic", 7)
        assert (await loading).policies.max_producers_per_topic == 7

    play(scenario)


def test_a_partition_is_not_made_anew_while_its_topic_is_on_its_way_out() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.broker.catalogue.partitioned.create(P, 2)
        await world.broker.catalogue.partitioned.mark_deleted(P)
        with pytest.raises(TopicNotFound, match="being deleted"):
            await world.topic("p-partition-0")
        with pytest.raises(TopicNotFound, match="being deleted"):
            await world.broker.catalogue.partitions_of(P, may_create=True)

    play(scenario)


def test_topics_made_on_demand_count_against_the_limit() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("POST", f"/namespaces/{SPACE}/maxTopicsPerNamespace", 1)
        await world.topic("x")
        await world.topic("x")
        with pytest.raises(NotAllowed, match="its limit is 1"):
            await world.topic("y")

    play(scenario)
