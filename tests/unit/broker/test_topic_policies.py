from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from anabranch.broker.policies import NOTHING_SET, Policies
from anabranch.broker.policy_values import BacklogQuota, QuotaAction, QuotaKind, Retention
from anabranch.broker.topic_policies import TopicPolicies, policies_path
from anabranch.errors import InvalidInput, Unavailable
from anabranch.metadata.store import MetadataStore
from anabranch.topics.names import parse_topic_name
from tests.broker_records import contended_store, memory_store

TOPIC = parse_topic_name("persistent://t/n/x")


def test_partitions_share_the_policies_of_their_topic_and_segments_of_theirs() -> None:
    assert policies_path(TOPIC.of_partition(1)) == policies_path(TOPIC)
    segment = parse_topic_name("segment://t/n/x/0000-ffff-0")
    assert policies_path(segment) == policies_path(parse_topic_name("topic://t/n/x"))
    assert policies_path(segment) != policies_path(TOPIC)


def test_record_comes_with_the_first_setting_and_goes_with_the_last() -> None:
    async def scenario() -> None:
        store = memory_store()
        policies = TopicPolicies(store)
        assert await policies.get(TOPIC) == NOTHING_SET
        await policies.update(TOPIC, lambda old: replace(old, message_ttl_seconds=5))
        assert await policies.get(TOPIC.of_partition(1)) == Policies(message_ttl_seconds=5)
        await policies.update(TOPIC, lambda old: replace(old, message_ttl_seconds=None))
        assert not await store.exists(policies_path(TOPIC))
        await policies.update(TOPIC, lambda old: old)
        assert not await store.exists(policies_path(TOPIC))
        await policies.delete(TOPIC)

    asyncio.run(scenario())


@pytest.mark.parametrize("is_there", [True, False])
def test_changes_of_two_at_the_same_time_both_hold(is_there: bool) -> None:
    async def scenario() -> None:
        store = contended_store()
        policies = TopicPolicies(store)
        if is_there:
            await policies.update(TOPIC, lambda old: replace(old, max_consumers_per_topic=7))

        async def rival(other: MetadataStore) -> None:
            await TopicPolicies(other).update(
                TOPIC, lambda old: replace(old, max_producers_per_topic=6)
            )

        store.rivals = [rival]
        await policies.update(TOPIC, lambda old: replace(old, message_ttl_seconds=5))
        found = await policies.get(TOPIC)
        assert (found.message_ttl_seconds, found.max_producers_per_topic) == (5, 6)

    asyncio.run(scenario())


def test_who_always_loses_gives_up() -> None:
    async def scenario() -> None:
        store = contended_store()

        async def rival(other: MetadataStore) -> None:
            await other.put(policies_path(TOPIC), b"{}", None)

        store.rivals = [rival] * 100
        with pytest.raises(Unavailable, match="try again"):
            await TopicPolicies(store).update(TOPIC, lambda _: Policies(message_ttl_seconds=5))

    asyncio.run(scenario())


def test_policies_that_contradict_each_other_are_refused() -> None:
    async def scenario() -> None:
        quota = {QuotaKind.SIZE: BacklogQuota(5 << 20, -1, QuotaAction.HOLD)}
        with pytest.raises(InvalidInput, match="persistent://t/n/x"):
            await TopicPolicies(memory_store()).update(
                TOPIC, lambda _: Policies(retention=Retention(5, 5), backlog_quotas=quota)
            )

    asyncio.run(scenario())
