"""Statistics as admin clients read them."""

from __future__ import annotations

from anabranch.broker.topic_stats import (
    earliest_time_ms,
    internal_stats,
    shown_time,
    sum_stats,
    topic_stats,
)
from tests.admin_world import SPACE, AdminWorld, play
from tests.unit.broker.test_housekeeping import FakeSession, handle_of

CORE = [
    "msgRateIn",
    "msgThroughputIn",
    "msgRateOut",
    "msgThroughputOut",
    "bytesInCounter",
    "msgInCounter",
    "bytesOutCounter",
    "msgOutCounter",
    "averageMsgSize",
    "storageSize",
    "backlogSize",
    "publishers",
    "waitingPublishers",
    "subscriptions",
    "replication",
    "deduplicationStatus",
    "ownerBroker",
    "topicCreationTimeStamp",
    "lastPublishTimeStamp",
]
PUBLISHER = [
    "accessMode",
    "msgRateIn",
    "msgThroughputIn",
    "averageMsgSize",
    "producerId",
    "producerName",
    "address",
    "connectedSince",
    "clientVersion",
    "metadata",
]
SUBSCRIPTION = [
    "msgRateOut",
    "msgThroughputOut",
    "bytesOutCounter",
    "msgOutCounter",
    "msgRateRedeliver",
    "msgBacklog",
    "backlogSize",
    "msgDelayed",
    "unackedMessages",
    "msgRateExpired",
    "totalMsgExpired",
    "consumers",
    "isDurable",
    "isReplicated",
    "subscriptionProperties",
]


def test_a_topic_tells_all_that_clients_expect() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(4, size=50)
        await world.subscribe()
        await topic.add_producer(handle_of(topic, FakeSession()))
        stats = topic_stats(topic, owner="me")
        assert set(CORE) <= set(stats)
        assert set(PUBLISHER) <= set(stats["publishers"][0])
        assert set(SUBSCRIPTION) <= set(stats["subscriptions"]["s"])
        assert None not in stats.values()
        assert stats["msgInCounter"] == 4
        assert stats["bytesInCounter"] == stats["storageSize"] == stats["backlogSize"] == 200
        assert stats["averageMsgSize"] == 50
        assert 0.9 < stats["msgRateIn"] <= 1.0
        assert stats["subscriptions"]["s"]["msgBacklog"] == 4
        assert topic_stats(topic, with_publishers=False)["publishers"] == []

    play(scenario)


def test_rates_fade_when_nothing_comes_any_more() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(10)
        world.clock.now_ms += 70_000
        stats = topic_stats(topic)
        assert (stats["msgRateIn"], stats["averageMsgSize"]) == (0.0, 0.0)
        assert stats["msgInCounter"] == 10

    play(scenario)


def test_the_oldest_unacknowledged_message_has_a_time() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(4)
        await world.subscribe()
        assert await earliest_time_ms(topic.subscription("s")) == world.clock.now_ms - 3000
        path = f"/persistent/{SPACE}/x"
        asked = await world.ask(f"{path}/stats", getEarliestTimeInBacklog="true")
        earliest = asked["subscriptions"]["s"]["earliestMsgPublishTimeInBacklog"]
        assert earliest == world.clock.now_ms - 3000
        await world.done("POST", f"{path}/subscription/s/skip_all")
        assert await earliest_time_ms(topic.subscription("s")) == 0

    play(scenario)


def test_internal_statistics_show_ledgers_and_cursors() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(4)
        await world.subscribe()
        found = internal_stats(topic)
        last = topic.ledger.last_confirmed
        assert found["lastConfirmedEntry"] == f"{last.ledger}:3"
        assert (found["state"], found["numberOfEntries"]) == ("LedgerOpened", 4)
        assert [each["entries"] for each in found["ledgers"]] == [4]
        assert found["cursors"]["s"]["markDeletePosition"] == f"{last.ledger}:-1"
        assert found["cursors"]["s"]["readPosition"] == f"{last.ledger}:0"

    play(scenario)


def test_a_sum_of_one_is_that_one() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(4)
        await world.subscribe()
        one = topic_stats(topic)
        total = sum_stats([one])
        assert {key: one[key] for key in total} == total
        twice = sum_stats([one, one])
        assert twice["subscriptions"]["s"]["msgBacklog"] == 8
        assert one["subscriptions"]["s"]["msgBacklog"] == 4

    play(scenario)


def test_times_are_shown_for_people() -> None:
    assert shown_time(1_700_000_000_123) == "2023-11-14T22:13:20.123+00:00"
