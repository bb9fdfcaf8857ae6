"""A topic that this broker has loaded: its ledger, its producers, its subscriptions.

It admits, appends and seals. Who may do so is for `commands/`, what is delivered to whom is for
`subscription`, and what is a double is for `deduplication`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from anabranch.broker.admission import Admission
from anabranch.broker.backlog_quota import Verdict, check_producer
from anabranch.broker.compacted_topic import CompactedTopic
from anabranch.broker.deduplication_log import CURSOR as DEDUPLICATION_CURSOR
from anabranch.broker.deduplication_log import DeduplicationLog
from anabranch.broker.dispatch_limits import dispatch_limit, publish_limit
from anabranch.broker.policies import EffectivePolicies
from anabranch.broker.producers import Producer
from anabranch.broker.publishing import ProducerHandle
from anabranch.broker.rate_limit import RateLimit
from anabranch.broker.rates import RateMeter
from anabranch.broker.subscription import Subscription
from anabranch.errors import (
    AnabranchError,
    NotAllowed,
    NotReady,
    Sealed,
    SubscriptionNotFound,
)
from anabranch.runtime.world import Clock
from anabranch.storage.ledger import Draft, LedgerStore
from anabranch.storage.managed_ledger import ManagedLedger
from anabranch.storage.spans import LATEST
from anabranch.topics.names import TopicName
from anabranch.topics.positions import Position

log = logging.getLogger(__name__)

# Cursors of ours, which are nobody's subscription.
SYSTEM_CURSORS = ("pulsar.dedup", "__compaction")
# How long a reader has to come back to the place it sought.
AWAITED_SECONDS = 60.0


class Topic:
    def __init__(
        self,
        name: TopicName,
        ledger: ManagedLedger,
        store: LedgerStore,
        clock: Clock,
        policies: EffectivePolicies,
    ) -> None:
        self.name = name
        self.store = store
        self.compacted = CompactedTopic(self, store)
        self.ledger = ledger
        self.clock = clock
        self.policies = policies
        self.partition = -1 if name.partition is None else name.partition
        self.deduplication: DeduplicationLog | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.meter = self.new_meter()
        self.created_at_ms = clock.wall_ms()
        self.last_published_ms = 0
        self.over_age: list[Verdict] = []  # subscriptions, as housekeeping last saw them
        self.dispatch_limit = self._new_dispatch_limit()
        self._publish_limit = publish_limit(policies.publish_rate, clock.monotonic())
        self.on_doubt: Callable[[], None] = lambda: None  # what it knows may not be so any more
        self._admission = Admission(self, policies.max_producers_per_topic)
        self._consumer_ids = 0
        self._is_ended = False
        self._policy_change = asyncio.Lock()
        for cursor in ledger.cursors.all():
            if cursor.name not in SYSTEM_CURSORS:
                self.subscriptions[cursor.name] = Subscription(self, cursor)

    def __repr__(self) -> str:
        return f"Topic({self.name}, {len(self.producers)} producers, {self.ledger!r})"

    @property
    def is_sealed(self) -> bool:
        return self.ledger.is_sealed

    async def apply_policies(self, policies: EffectivePolicies) -> None:
        """From here on these hold: limits at once, the rest for whoever comes."""
        former, self.policies = self.policies, policies
        self._admission.apply_policies(policies)
        self._apply_rates(former)
        for subscription in self.subscriptions.values():
            subscription.apply_policies(former)
        async with self._policy_change:
            if not self.policies.is_deduplication_on:
                self.deduplication = None
                # Left standing, it would keep everything behind it from being trimmed.
                if self.ledger.cursors.get(DEDUPLICATION_CURSOR) is not None:
                    await self.ledger.delete_cursor(DEDUPLICATION_CURSOR)
            elif self.deduplication is None:
                self.deduplication = await DeduplicationLog.load(self)

    @property
    def producers(self) -> Mapping[tuple[int, int], ProducerHandle]:
        """By connection and id; also those that wait."""
        return self._admission.handles

    def _apply_rates(self, former: EffectivePolicies) -> None:
        """What has not changed keeps its debts."""
        if former.publish_rate != self.policies.publish_rate:
            self._publish_limit = publish_limit(self.policies.publish_rate, self.clock.monotonic())
        if former.topic_dispatch_rate != self.policies.topic_dispatch_rate:
            self.dispatch_limit = self._new_dispatch_limit()

    def _new_dispatch_limit(self) -> RateLimit | None:
        return dispatch_limit(self.policies.topic_dispatch_rate, self.clock.monotonic())

    def require_serving(self, subscription: Subscription | None = None) -> None:
        """NotReady if it, or the subscription, ended while its caller waited for something."""
        if self._is_ended:
            raise NotReady(f"{self.name} was unloaded; look it up again")
        if subscription is not None and self.subscriptions.get(subscription.name) is not (
            subscription
        ):
            raise NotReady(f"{subscription.title} was deleted meanwhile; subscribe again")

    @property
    def topic_epoch(self) -> int | None:
        """Of the last producer that had the topic for itself; None if there was none."""
        return self._admission.roster.topic_epoch

    def is_waiting(self, handle: ProducerHandle) -> bool:
        """Not let in yet: another has the topic for itself."""
        return self._admission.is_waiting(handle)

    def next_consumer_id(self) -> int:
        self._consumer_ids += 1
        return self._consumer_ids

    def new_meter(self) -> RateMeter:
        return RateMeter(self.clock.monotonic())

    # Producers

    async def add_producer(self, handle: ProducerHandle) -> asyncio.Future[Producer] | None:
        """Let it in; a future if it has to wait until it has the topic for itself."""
        if self.is_sealed:
            raise Sealed(f"{self.name} is sealed at {self.ledger.last_confirmed}")
        check_producer(self)
        return await self._admission.add(handle)

    async def promoted(self, waiting: asyncio.Future[Producer]) -> None:
        """Until it has the topic for itself, and that is written down."""
        await self._admission.save_epoch(await waiting)

    def close_producer(
        self, handle: ProducerHandle, reason: str, *, is_failed: bool = False
    ) -> None:
        """By us: its client is told, and will come back."""
        self._admission.close(handle, reason, is_failed=is_failed)

    def remove_producer(self, handle: ProducerHandle) -> None:
        """It left, or its connection is gone."""
        self._admission.remove(handle)

    # Entries

    def submit(
        self, drafts: Sequence[Draft], size_bytes: int, by: ProducerHandle | None = None
    ) -> asyncio.Future[Position]:
        future = self.ledger.submit(drafts)
        future.add_done_callback(self._appended)
        now = self.clock.monotonic()
        messages = sum([draft.messages for draft in drafts])
        self.meter.record(now, messages, size_bytes)
        if by is not None:
            by.meter.record(now, messages, size_bytes)
            if self._publish_limit is not None:
                # Charged after the fact: what was received is taken, then nothing more is.
                self._publish_limit.charge(now, messages, size_bytes)
                by.session.throttle(self._publish_limit.wait_seconds(now))
        return future

    def _appended(self, future: asyncio.Future[Position]) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        self.last_published_ms = self.clock.wall_ms()
        for subscription in self.subscriptions.values():
            subscription.wake()

    # Subscriptions

    def subscription(self, name: str) -> Subscription:
        found = self.subscriptions.get(name)
        if found is None:
            raise SubscriptionNotFound(f"no subscription {name!r} on {self.name}")
        return found

    async def open_subscription(
        self,
        name: str,
        start: Position = LATEST,
        *,
        is_durable: bool = True,
        properties: Mapping[str, str] | None = None,
    ) -> Subscription:
        """The one there is, or a new one that begins at `start`."""
        if name in SYSTEM_CURSORS:
            raise NotAllowed(f"the name {name!r} is the broker's own")
        found = self.subscriptions.get(name)
        if found is not None and found.cursor.is_durable != is_durable:
            raise NotAllowed(
                f"{name!r} on {self.name} is {'' if found.cursor.is_durable else 'not '}durable"
            )
        if found is not None:
            return found
        cursor = await self.ledger.open_cursor(
            name, start, is_durable=is_durable, properties=properties
        )
        self.require_serving()
        return self.subscriptions.setdefault(name, Subscription(self, cursor))

    async def delete_subscription(self, name: str) -> None:
        subscription = self.subscription(name)
        subscription.disconnect_all()
        subscription.stop()
        self.subscriptions.pop(name, None)
        if subscription.cursor.is_durable:
            await self.ledger.delete_cursor(name)

    def drop_if_not_durable(self, subscription: Subscription) -> None:
        """A reader's cursor lives as long as its consumers, and through a seek of theirs."""
        if subscription.cursor.is_durable or subscription.consumers:
            return
        if subscription.is_awaited:
            loop = asyncio.get_running_loop()
            loop.call_later(AWAITED_SECONDS, self._give_up_waiting, subscription)
            return
        subscription.stop()
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]

    def _give_up_waiting(self, subscription: Subscription) -> None:
        subscription.is_awaited = False
        self.drop_if_not_durable(subscription)

    # The life of the whole

    async def seal(self) -> Position:
        last = await self.ledger.seal()
        self._admission.close_all("the topic is sealed")
        for subscription in self.subscriptions.values():
            subscription.wake()
            subscription.reached_end()
        return last

    def disconnect_all(self) -> None:
        self._is_ended = True
        self._admission.close_all("the topic is being unloaded")
        for subscription in self.subscriptions.values():
            subscription.disconnect_all()
            subscription.stop()

    async def unload(self) -> None:
        self.disconnect_all()
        try:
            if self.deduplication is not None:
                await self.deduplication.save()
            await self.ledger.unload()
        except AnabranchError as error:
            # Nobody comes back to this instance: the next one recovers what is there.
            self.ledger.abandon(f"unloading failed: {error}")
            raise

    async def delete(self) -> None:
        self.disconnect_all()
        compacted = self.compacted.current
        await self.ledger.delete()
        if compacted is not None:
            await self.store.delete(compacted.ledger)
