"""Housekeeping, a duty at a time, on a clock that is moved by hand."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from anabranch.broker import housekeeping
from anabranch.broker.producers import AccessMode, Producer
from anabranch.broker.publishing import ProducerHandle
from anabranch.broker.topic import Topic
from anabranch.errors import NotAllowed, OverQuota, ProducersHeld
from tests.admin_world import SPACE, AdminWorld, play
from tests.managed_world import turns, until

HOME = f"/namespaces/{SPACE}"


class FakeSession:
    """A connection of which only the closing is of interest."""

    number = 1
    peer = "test:1"
    client_version = "test"

    def __init__(self) -> None:
        self.closed: list[str] = []

    def close_producer(self, handle: ProducerHandle) -> None:
        self.closed.append(handle.name)


def handle_of(topic: Topic, session: FakeSession, name: str = "p") -> ProducerHandle:
    producer = Producer(session.number, 1, name, AccessMode.SHARED)
    return ProducerHandle(cast(Any, session), topic, producer, {})


async def quota(world: AdminWorld, policy: str, *, size: int = -1, seconds: int = -1) -> None:
    kind = "destination_storage" if size > 0 else "message_age"
    body = {"limitSize": size, "limitTime": seconds, "policy": policy}
    await world.done("POST", f"{HOME}/backlogQuota?backlogQuotaType={kind}", body)


def test_messages_expire_for_every_subscription_but_not_for_the_brokers_own() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("POST", f"{HOME}/deduplication", True)
        topic = await world.publish(10)
        await world.subscribe("a")
        await world.subscribe("b")
        await world.done("POST", f"{HOME}/messageTTL", 4)
        await world.keeping.perform("expiry")
        assert topic.subscription("a").cursor.backlog == 5
        assert topic.subscription("b").cursor.backlog == 5
        own = topic.ledger.cursors.get("pulsar.dedup")
        assert own is not None
        assert own.backlog == 10

    play(scenario)


def test_nothing_expires_without_a_time_to_live() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(10)
        await world.subscribe()
        world.clock.now_ms += 10**9
        await world.keeping.perform("expiry")
        assert topic.subscription("s").cursor.backlog == 10

    play(scenario)


@pytest.mark.parametrize(
    ("policy", "error"),
    [("producer_request_hold", ProducersHeld), ("producer_exception", OverQuota)],
)
def test_over_its_size_quota_a_topic_sends_producers_away(
    policy: str, error: type[Exception]
) -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(10, size=100)
        await world.subscribe()
        session = FakeSession()
        await topic.add_producer(handle_of(topic, session))
        await quota(world, policy, size=500)
        await world.keeping.perform("quotas")
        assert session.closed == ["p"]
        assert topic.producers == {}
        with pytest.raises(error, match="1000 bytes is over the limit of 500"):
            await topic.add_producer(handle_of(topic, session))
        await world.done("POST", f"/persistent/{SPACE}/x/subscription/s/skip/6")
        await topic.add_producer(handle_of(topic, session))

    play(scenario)


def test_a_backlog_that_is_too_old_holds_producers_until_it_is_looked_at_again() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(3)
        await world.subscribe()
        await quota(world, "producer_request_hold", seconds=60)
        await world.keeping.perform("quotas")
        await topic.add_producer(handle_of(topic, FakeSession()))
        world.clock.now_ms += 61_000
        await world.keeping.perform("quotas")
        assert topic.producers == {}
        with pytest.raises(ProducersHeld, match="older than the limit of 60 s"):
            await topic.add_producer(handle_of(topic, FakeSession()))
        await world.done("POST", f"{HOME}/clearBacklog")
        await world.keeping.perform("quotas")
        await topic.add_producer(handle_of(topic, FakeSession()))

    play(scenario)


def test_eviction_skips_the_oldest_and_keeps_producers() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(10, size=100)
        await world.subscribe()
        session = FakeSession()
        await topic.add_producer(handle_of(topic, session))
        await quota(world, "consumer_backlog_eviction", size=500)
        await world.keeping.perform("quotas")
        assert 3 <= topic.subscription("s").cursor.backlog <= 5
        assert session.closed == []

    play(scenario)


def test_without_subscriptions_there_is_no_backlog_to_be_over_a_quota() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(10)
        await quota(world, "producer_exception", size=1)
        await world.keeping.perform("quotas")
        await topic.add_producer(handle_of(topic, FakeSession()))

    play(scenario)


def test_quotas_are_not_looked_at_where_that_is_switched_off() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(10)
        await world.subscribe()
        session = FakeSession()
        await topic.add_producer(handle_of(topic, session))
        await quota(world, "producer_exception", size=1)
        await world.keeping.perform("quotas")
        assert session.closed == []

    play(scenario, "backlogQuotaCheckEnabled=false")


def test_acknowledged_ledgers_go_when_retention_lets_them() -> None:
    async def scenario(world: AdminWorld) -> None:
        retention = {"retentionTimeInMinutes": 10, "retentionSizeInMB": -1}
        await world.done("POST", f"{HOME}/retention", retention)
        topic = await world.publish(25)
        await world.subscribe()
        await world.keeping.perform("retention")
        assert topic.ledger.spans().total == 25
        await world.done("POST", f"{HOME}/clearBacklog")
        await world.keeping.perform("retention")
        assert topic.ledger.spans().total == 25
        world.clock.now_ms += 11 * 60_000
        await world.keeping.perform("retention")
        assert topic.ledger.spans().total < 25

    play(
        scenario,
        "managedLedgerMaxEntriesPerLedger=10",
        "managedLedgerMinLedgerRolloverTimeMinutes=0",
    )


def test_an_unused_topic_goes_after_its_time() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(3)
        await world.keeping.perform("inactive")
        assert await world.ask(f"/persistent/{SPACE}") != []
        world.clock.now_ms += 61_000
        await world.keeping.perform("inactive")
        assert await world.ask(f"/persistent/{SPACE}") == []

    play(scenario)


def test_a_topic_that_is_used_stays() -> None:
    async def scenario(world: AdminWorld) -> None:
        produced = await world.publish(3, "produced")
        await produced.add_producer(handle_of(produced, FakeSession()))
        await world.publish(3, "subscribed")
        await world.subscribe("s", "subscribed")
        for _ in range(3):
            await world.keeping.perform("inactive")
            world.clock.now_ms += 61_000
        assert len(await world.ask(f"/persistent/{SPACE}")) == 2

    play(scenario)


def test_time_out_of_use_counts_from_the_last_look_that_saw_it_idle() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(3)
        await world.keeping.perform("inactive")
        handle = handle_of(topic, FakeSession())
        await topic.add_producer(handle)
        world.clock.now_ms += 61_000
        await world.keeping.perform("inactive")
        topic.remove_producer(handle)
        await world.keeping.perform("inactive")
        world.clock.now_ms += 59_000
        await world.keeping.perform("inactive")
        assert await world.ask(f"/persistent/{SPACE}") != []
        world.clock.now_ms += 2_000
        await world.keeping.perform("inactive")
        assert await world.ask(f"/persistent/{SPACE}") == []

    play(scenario)


def test_a_caught_up_topic_goes_where_that_is_the_mode() -> None:
    async def scenario(world: AdminWorld) -> None:
        for name in ("done", "behind"):
            await world.publish(3, name)
            await world.subscribe("s", name)
        await world.done("POST", f"/persistent/{SPACE}/done/subscription/s/skip_all")
        await world.keeping.perform("inactive")
        world.clock.now_ms += 61_000
        await world.keeping.perform("inactive")
        assert await world.ask(f"/persistent/{SPACE}") == [f"persistent://{SPACE}/behind"]

    play(scenario, "brokerDeleteInactiveTopicsMode=delete_when_subscriptions_caught_up")


def test_retention_keeps_an_unused_topic() -> None:
    async def scenario(world: AdminWorld) -> None:
        retention = {"retentionTimeInMinutes": 10, "retentionSizeInMB": -1}
        await world.done("POST", f"{HOME}/retention", retention)
        await world.publish(3)
        await world.keeping.perform("inactive")
        world.clock.now_ms += 61_000
        await world.keeping.perform("inactive")
        assert await world.ask(f"/persistent/{SPACE}") != []
        world.clock.now_ms += 10 * 60_000
        await world.keeping.perform("inactive")
        assert await world.ask(f"/persistent/{SPACE}") == []

    play(scenario)


def test_inactive_topics_stay_where_their_deletion_is_off() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(3)
        for _ in range(3):
            await world.keeping.perform("inactive")
            world.clock.now_ms += 61_000
        assert await world.ask(f"/persistent/{SPACE}") != []

    play(scenario, "brokerDeleteInactiveTopicsEnabled=false")


def test_a_producer_that_comes_at_the_last_moment_keeps_its_topic() -> None:
    """Between the decision and the end the store is read, and others run."""

    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(3)
        await world.keeping.perform("inactive")
        world.clock.now_ms += 61_000
        ending = asyncio.create_task(world.keeping.perform("inactive"))
        read = world.broker.catalogue.partitioned.get

        async def slow_read(name: Any) -> Any:
            await topic.add_producer(handle_of(topic, FakeSession()))
            return await read(name)

        world.broker.catalogue.partitioned.get = slow_read  # type: ignore[method-assign,assignment]
        await ending
        assert len(topic.producers) == 1
        assert list(world.broker.catalogue.topics.loaded.values()) == [topic]

    play(scenario)


def test_a_partitioned_record_goes_with_its_last_partition_where_configured() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.done("PUT", f"/persistent/{SPACE}/p/partitions", 2)
        for index in range(2):
            await world.publish(1, f"p-partition-{index}")
        await world.keeping.perform("inactive")
        world.clock.now_ms += 61_000
        await world.keeping.perform("inactive")
        await world.refused(404, "GET", f"/persistent/{SPACE}/p/partitions")

    play(scenario, "brokerDeleteInactivePartitionedTopicMetadataEnabled=true")


def test_unused_subscriptions_go_after_their_time() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(1)
        await world.subscribe()
        await world.keeping.perform("subscriptions")
        world.clock.now_ms += 11 * 60_000
        await world.keeping.perform("subscriptions")
        assert list(topic.subscriptions) == ["s"]
        await world.done("POST", f"{HOME}/subscriptionExpirationTime", 10)
        await world.keeping.perform("subscriptions")
        assert list(topic.subscriptions) == []

    play(scenario)


def test_a_topic_that_grew_by_its_threshold_is_compacted() -> None:
    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(5, size=100)
        await world.done("POST", f"/persistent/{SPACE}/x/compactionThreshold", 1000)
        await world.keeping.perform("compaction")
        assert topic.compacted.current is None
        await world.publish(10, size=100)
        await world.keeping.perform("compaction")
        assert topic.compacted.current is not None

    play(scenario)


def test_what_is_known_of_producers_is_saved_now_and_then() -> None:
    async def scenario(world: AdminWorld) -> None:
        async def answered() -> Topic:
            topic = await world.publish(5)
            assert topic.deduplication is not None
            topic.deduplication.settled(topic.ledger.last_confirmed, 5)
            return topic

        await world.done("POST", f"{HOME}/deduplication", True)
        topic = await answered()
        await world.keeping.perform("deduplication")
        cursor = topic.ledger.cursors.get("pulsar.dedup")
        assert cursor is not None
        assert cursor.backlog == 0
        await answered()
        await world.keeping.perform("deduplication")
        assert cursor.backlog == 5
        world.clock.now_ms += 120_000
        await world.keeping.perform("deduplication")
        assert cursor.backlog == 0

    play(scenario)


def test_one_failing_topic_does_not_keep_the_others_waiting() -> None:
    async def scenario(world: AdminWorld) -> None:
        bad = await world.publish(10, "bad")
        good = await world.publish(10, "good")
        for name in ("bad", "good"):
            await world.subscribe("s", name)
        await world.done("POST", f"{HOME}/messageTTL", 4)

        async def broken(*_: Any) -> None:
            raise NotAllowed("not today")

        bad.ledger.find_by_time = broken  # type: ignore[method-assign,assignment]
        world.clock.now_ms += 60_000
        await world.keeping.perform("expiry")
        assert good.subscription("s").cursor.backlog == 0

    play(scenario)


def test_every_duty_is_due_when_its_interval_has_passed() -> None:
    async def scenario(world: AdminWorld) -> None:
        assert world.keeping.due() == []
        assert world.keeping.seconds_to_next() == 60.0
        world.clock.now_ms += 60_000
        assert world.keeping.due() == ["quotas", "compaction", "inactive"]
        for name in world.keeping.due():
            await world.keeping.perform(name)
        assert world.keeping.due() == []
        world.clock.now_ms += 300_000
        assert len(world.keeping.due()) == 7

    play(scenario)


def test_a_changed_interval_holds_at_once() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.admin.live.set("brokerDeleteInactiveTopicsFrequencySeconds", "7")
        world.clock.now_ms += 7_000
        assert world.keeping.due() == ["inactive"]

    play(scenario)


def test_it_goes_on_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "LOOK_SECONDS", 0.0)

    async def scenario(world: AdminWorld) -> None:
        topic = await world.publish(10)
        await world.subscribe()
        await world.done("POST", f"{HOME}/messageTTL", 4)
        running = asyncio.create_task(world.keeping.run())
        await turns()
        assert topic.subscription("s").cursor.backlog == 10
        world.clock.now_ms += 5 * 60_000
        await until(lambda: topic.subscription("s").cursor.backlog == 0)
        running.cancel()
        await asyncio.wait([running])

    play(scenario)
