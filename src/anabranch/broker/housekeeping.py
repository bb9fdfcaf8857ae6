"""What has to be done to loaded topics now and then, each duty at its own interval.

    expiry          messages older than their time to live are acknowledged for every subscription
    quotas          producers of a topic over its backlog quota are sent away, or it is evicted
    retention       ledgers that nobody needs are dropped
    inactive        topics that nobody uses are deleted
    subscriptions   subscriptions that nobody uses are deleted
    compaction      topics that grew by their threshold are compacted
    deduplication   what is known of producers is saved

A topic that is not loaded is left alone: it holds what it held. One topic's failure is logged and
is nobody else's business.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from anabranch.broker import backlog_quota
from anabranch.broker.backlog_quota import Verdict
from anabranch.broker.config import Config
from anabranch.broker.deduplication_log import DeduplicationLog
from anabranch.broker.inactivity import IdleTimes, is_idle, may_go
from anabranch.broker.server import Broker
from anabranch.broker.subscription_moves import expire_older
from anabranch.broker.topic import Topic
from anabranch.broker.topic_lifecycle import delete_topic
from anabranch.errors import AnabranchError, NotAllowed, NotFound
from anabranch.storage.trimming import BacklogAction, backlog_bytes
from anabranch.topics.positions import EARLIEST

log = logging.getLogger(__name__)

# No longer than this between two looks at what is due, since intervals may be changed.
LOOK_SECONDS = 5.0

TopicDuty = Callable[[Topic], Awaitable[None]]


class Housekeeping:
    def __init__(self, broker: Broker, config: Callable[[], Config]) -> None:
        self._broker = broker
        self._config = config
        self._clock = broker.world.clock
        self._idle_topics: IdleTimes[str] = IdleTimes()
        self._idle_subscriptions: IdleTimes[tuple[str, str]] = IdleTimes()
        self._snapshots: dict[str, float] = {}
        self._done = dict.fromkeys(self._intervals(), self._clock.monotonic())

    async def run(self) -> None:
        while True:
            await asyncio.sleep(min(LOOK_SECONDS, self.seconds_to_next()))
            for name in self.due():
                await self.perform(name)

    def _intervals(self) -> dict[str, float]:
        """In the order in which they are done: each makes room for the next."""
        keeping, config = self._config().housekeeping, self._config()
        return {
            "deduplication": float(config.deduplication.check_seconds),
            "expiry": keeping.expiry_minutes * 60.0,
            "quotas": float(keeping.quota_seconds),
            "compaction": float(keeping.compaction_seconds),
            "retention": float(keeping.retention_seconds),
            "subscriptions": keeping.subscription_expiry_minutes * 60.0,
            "inactive": float(keeping.inactive_seconds),
        }

    def due(self) -> list[str]:
        now = self._clock.monotonic()
        return [name for name, each in self._intervals().items() if now >= self._done[name] + each]

    def seconds_to_next(self) -> float:
        now = self._clock.monotonic()
        waits = [self._done[name] + each - now for name, each in self._intervals().items()]
        return max(0.0, min(waits))

    async def perform(self, name: str) -> None:
        """One duty, now."""
        self._done[name] = self._clock.monotonic()
        duties: dict[str, Callable[[], Awaitable[None]]] = {
            "deduplication": lambda: self._each(self._save_deduplication),
            "expiry": lambda: self._each(self._expire),
            "quotas": lambda: self._each(self._hold_to_quota),
            "compaction": lambda: self._each(self._compact),
            "retention": lambda: self._each(self._trim),
            "subscriptions": self._end_unused_subscriptions,
            "inactive": self._end_inactive_topics,
        }
        await duties[name]()

    async def _each(self, duty: TopicDuty) -> None:
        for topic in list(self._broker.catalogue.topics.loaded.values()):
            await self._guarded(topic, duty)
            # Thousands of topics must not keep the loop from its sockets.
            await asyncio.sleep(0)

    async def _guarded(self, topic: Topic, duty: TopicDuty) -> None:
        if topic.ledger.ended_by is not None:
            return
        try:
            await duty(topic)
        except AnabranchError as error:
            log.warning("housekeeping failed topic=%s error=%r", topic.name, error)
        except Exception:
            log.exception("housekeeping failed topic=%s", topic.name)

    # Messages

    async def _expire(self, topic: Topic) -> None:
        seconds = topic.policies.message_ttl_seconds
        if seconds <= 0:
            return
        for subscription in backlog_quota.durable(topic):
            if await expire_older(subscription, seconds, self._clock.wall_ms()):
                log.info("expired subscription=%s older_seconds=%d", subscription.title, seconds)

    async def _hold_to_quota(self, topic: Topic) -> None:
        if not self._config().housekeeping.check_quotas:
            topic.over_age = []
            return
        topic.over_age = await backlog_quota.over_age(topic, self._clock.wall_ms())
        verdicts = [*backlog_quota.over_size(topic), *topic.over_age]
        for verdict in verdicts:
            await self._evict(topic, verdict)
        refused = [each for each in verdicts if each.over.action is not BacklogAction.EVICT]
        if refused and topic.producers:
            for producer in list(topic.producers.values()):
                topic.close_producer(producer, refused[0].over.reason)

    async def _evict(self, topic: Topic, verdict: Verdict) -> None:
        if verdict.over.evict_through is None or verdict.subscription not in topic.subscriptions:
            return
        subscription = topic.subscriptions[verdict.subscription]
        through = min(verdict.over.evict_through, topic.ledger.last_confirmed)
        if subscription.cursor.acknowledge_cumulative(through):
            subscription.moved()
            await subscription.cursor.persist()
            log.info("evicted subscription=%s to=%s", subscription.title, through)

    async def _trim(self, topic: Topic) -> None:
        wanted = backlog_quota.ledger_policy(topic.policies)
        if topic.ledger.policy != wanted:
            await topic.ledger.set_policy(wanted)
        # It goes by what is persisted, and acknowledgements are persisted with some delay.
        await topic.ledger.cursors.persist()
        await topic.ledger.trim()

    async def _compact(self, topic: Topic) -> None:
        threshold = topic.policies.compaction_threshold_bytes
        if threshold <= 0:
            return
        current = topic.compacted.current
        horizon = EARLIEST if current is None else current.horizon
        if backlog_bytes(topic.ledger.ledgers(), horizon) > threshold:
            await topic.compacted.compact()

    async def _save_deduplication(self, topic: Topic) -> None:
        known = topic.deduplication
        if not isinstance(known, DeduplicationLog):
            return
        now, key = self._clock.monotonic(), str(topic.name)
        if now - self._snapshots.get(key, 0.0) < topic.policies.deduplication_snapshot_seconds:
            return
        loaded = self._broker.catalogue.topics.loaded
        self._snapshots = {each: at for each, at in self._snapshots.items() if each in loaded}
        self._snapshots[key] = now
        await known.save()

    # Whole topics and subscriptions

    async def _end_inactive_topics(self) -> None:
        topics = self._broker.catalogue.topics.loaded
        idle = {key for key, topic in topics.items() if is_idle(topic)}
        for key, seconds in self._idle_topics.look(idle, self._clock.monotonic()).items():
            topic = topics.get(key)
            if topic is not None and may_go(topic, seconds, self._clock.wall_ms()):
                await self._guarded(topic, self._end_topic)

    async def _end_topic(self, topic: Topic) -> None:
        try:
            await delete_topic(self._broker, topic.name, _check_idle)
        except (NotFound, NotAllowed):
            return  # somebody else deleted it, or uses it now
        log.info("inactive topic deleted topic=%s", topic.name)
        await self._end_partitioned(topic)

    async def _end_partitioned(self, topic: Topic) -> None:
        """With its last partition, if that is configured."""
        name, catalogue = topic.name.base, self._broker.catalogue
        if topic.name.partition is None:
            return
        if not self._config().housekeeping.delete_partition_records:
            return
        record = await catalogue.partitioned.get(name)
        if record is None:
            return
        for index in range(record.partitions):
            if await catalogue.topics.exists(name.of_partition(index)):
                return
        await catalogue.partitioned.delete(name)

    async def _end_unused_subscriptions(self) -> None:
        topics = self._broker.catalogue.topics.loaded
        unused = {
            (key, each.name)
            for key, topic in topics.items()
            for each in backlog_quota.durable(topic)
            if not each.consumers
        }
        found = self._idle_subscriptions.look(unused, self._clock.monotonic())
        for (key, name), seconds in found.items():
            topic = topics.get(key)
            if topic is None or name not in topic.subscriptions:
                continue
            limit = topic.policies.subscription_expiration_minutes * 60
            if 0 < limit <= seconds and not topic.subscriptions[name].consumers:
                await self._guarded(topic, partial(_end_subscription, name))


def _check_idle(topic: Topic) -> None:
    if not is_idle(topic):
        raise NotAllowed(f"{topic.name} is in use again")


async def _end_subscription(name: str, topic: Topic) -> None:
    await topic.delete_subscription(name)
    log.info("unused subscription deleted topic=%s subscription=%s", topic.name, name)
