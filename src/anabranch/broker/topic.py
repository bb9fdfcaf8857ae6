"""A topic that this broker has loaded: its ledger, its producers, its subscriptions.

It admits, appends and seals. Who may do so is for `commands/`, what is delivered to whom is for
`subscription`, and what is a double is for `deduplication`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from anabranch.broker.backlog_quota import Verdict, check_producer
from anabranch.broker.compacted_topic import CompactedTopic
from anabranch.broker.deduplication_log import CURSOR as DEDUPLICATION_CURSOR
from anabranch.broker.deduplication_log import DeduplicationLog
from anabranch.broker.policies import EffectivePolicies
from anabranch.broker.producers import (
    Accepted,
    Contested,
    Producer,
    ProducerRoster,
    Refusal,
    Refused,
    Removed,
    Waiting,
)
from anabranch.broker.publishing import ProducerHandle
from anabranch.broker.rates import RateMeter
from anabranch.broker.subscription import Subscription
from anabranch.errors import (
    NotAllowed,
    NotReady,
    ProducerBusy,
    ProducerFenced,
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

# A property of the ledger: the epoch of the last producer that had the topic for itself.
EPOCH_PROPERTY = "anabranch.topic-epoch"
# Cursors of ours, which are nobody's subscription.
SYSTEM_CURSORS = ("pulsar.dedup", "__compaction")
# How long a producer whose name is wanted by another has to show that it lives.
LIVENESS_SECONDS = 5.0
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
        self.producers: dict[tuple[int, int], ProducerHandle] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.meter = self.new_meter()
        self.created_at_ms = clock.wall_ms()
        self.last_published_ms = 0
        self.over_age: list[Verdict] = []  # subscriptions, as housekeeping last saw them
        epoch = ledger.record.properties.get(EPOCH_PROPERTY)
        self._roster = ProducerRoster(
            str(name),
            topic_epoch=None if epoch is None else int(epoch),
            max_producers=policies.max_producers_per_topic,
        )
        self._consumer_ids = 0
        self._is_ended = False
        self._admission = asyncio.Lock()
        self._policy_change = asyncio.Lock()
        self._promotions: dict[tuple[int, int], asyncio.Future[Producer]] = {}
        for cursor in ledger.cursors.all():
            if cursor.name not in SYSTEM_CURSORS:
                self.subscriptions[cursor.name] = Subscription(self, cursor)

    def __repr__(self) -> str:
        return f"Topic({self.name}, {len(self.producers)} producers, {self.ledger!r})"

    @property
    def is_sealed(self) -> bool:
        return self.ledger.is_sealed

    async def apply_policies(self, policies: EffectivePolicies) -> None:
        """From here on these hold, for whoever comes; those who are attached stay as they are."""
        self.policies = policies
        self._roster.max_producers = policies.max_producers_per_topic
        async with self._policy_change:
            if not self.policies.is_deduplication_on:
                self.deduplication = None
                # Left standing, it would keep everything behind it from being trimmed.
                if self.ledger.cursors.get(DEDUPLICATION_CURSOR) is not None:
                    await self.ledger.delete_cursor(DEDUPLICATION_CURSOR)
            elif self.deduplication is None:
                self.deduplication = await DeduplicationLog.load(self)

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
        return self._roster.topic_epoch

    def is_waiting(self, handle: ProducerHandle) -> bool:
        """Not let in yet: another has the topic for itself."""
        return handle.producer.key in self._promotions

    def next_consumer_id(self) -> int:
        self._consumer_ids += 1
        return self._consumer_ids

    def new_meter(self) -> RateMeter:
        return RateMeter(self.clock.monotonic())

    # Producers

    async def add_producer(
        self, handle: ProducerHandle
    ) -> tuple[Producer, asyncio.Future[Producer] | None]:
        """Let it in; the future is of one that has to wait until it has the topic for itself."""
        if self.is_sealed:
            raise Sealed(f"{self.name} is sealed at {self.ledger.last_confirmed}")
        check_producer(self)
        async with self._admission:
            self.require_serving()
            return await self._admit(handle)

    async def _admit(
        self, handle: ProducerHandle
    ) -> tuple[Producer, asyncio.Future[Producer] | None]:
        decision = self._roster.admit(handle.producer)
        if isinstance(decision, Contested):
            holder = self.producers.get(decision.holder.key)
            if holder is not None and await holder.session.is_alive(LIVENESS_SECONDS):
                raise ProducerBusy(
                    f"producer {handle.name!r} is already connected to {self.name}; "
                    "pick another name"
                )
            if holder is not None:
                holder.session.cut("its producer's name was taken over")
                self.remove_producer(holder)
            decision = self._roster.admit(handle.producer)
        match decision:
            case Accepted():
                await self._enter(handle, decision)
                return handle.producer, None
            case Waiting():
                self.producers[handle.producer.key] = handle
                future: asyncio.Future[Producer] = asyncio.get_running_loop().create_future()
                self._promotions[handle.producer.key] = future
                return handle.producer, future
            case Refused():
                raise _refusal(decision)
            case Contested():
                raise ProducerBusy(f"producer {handle.name!r} of {self.name} is contested")

    async def _enter(self, handle: ProducerHandle, accepted: Accepted) -> None:
        handle.producer = accepted.producer
        former = self.producers.get(handle.producer.key)
        if former is not None and former is not handle:
            former.close()  # an earlier attempt of the same client; it sends all of it again
        self.producers[handle.producer.key] = handle
        if accepted.is_epoch_new:
            await self.save_epoch(accepted.producer)
        for closed in accepted.closed:
            self._evict(closed, "another producer has the topic for itself now")
        for fenced in accepted.fenced:
            self.producers.pop(fenced.key, None)
            self._fail_promotion(fenced, f"{self.name} was taken by another producer")
        if self.deduplication is not None:
            self.deduplication.connected(handle.name)

    async def save_epoch(self, holder: Producer) -> None:
        """Before anybody hears that it has the topic for itself."""
        epoch = holder.topic_epoch or 0

        def raised(properties: Mapping[str, str]) -> dict[str, str]:
            # Two holders may be saved at once, and the earlier one last.
            known = int(properties.get(EPOCH_PROPERTY, 0))
            return {**properties, EPOCH_PROPERTY: str(max(epoch, known))}

        await self.ledger.update_properties(raised)

    def _evict(self, producer: Producer, reason: str) -> None:
        handle = self.producers.pop(producer.key, None)
        if handle is not None:
            handle.close()
            handle.session.close_producer(handle)
            log.info("producer closed topic=%s name=%s reason=%s", self.name, handle.name, reason)

    def close_producer(self, handle: ProducerHandle, reason: str) -> None:
        """By us: its client is told, and will come back."""
        handle.close()
        handle.session.close_producer(handle)
        log.info("producer closed topic=%s name=%s reason=%s", self.name, handle.name, reason)
        self._forget(handle)

    def remove_producer(self, handle: ProducerHandle) -> None:
        """It left, or its connection is gone."""
        handle.close()
        self._forget(handle)

    def _forget(self, handle: ProducerHandle) -> None:
        key = handle.producer.key
        if self.producers.get(key) is handle:
            del self.producers[key]
            waiting = self._promotions.pop(key, None)
            if waiting is not None:
                waiting.cancel()
            self._promote(self._roster.remove(*key))
        if self.deduplication is not None:
            self.deduplication.disconnected(handle.name, self.clock.wall_ms())

    def _promote(self, removed: Removed) -> None:
        for producer, refusal in removed.refused:
            self.producers.pop(producer.key, None)
            self._fail_promotion(producer, refusal.message)
        if removed.promoted is None:
            return
        promoted = removed.promoted.producer
        handle = self.producers.get(promoted.key)
        future = self._promotions.pop(promoted.key, None)
        if handle is not None and future is not None and not future.done():
            handle.producer = promoted
            future.set_result(promoted)

    def _fail_promotion(self, producer: Producer, reason: str) -> None:
        future = self._promotions.pop(producer.key, None)
        if future is not None and not future.done():
            future.set_exception(ProducerFenced(reason))

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
        for producer in self._roster.clear():
            self._evict(producer, "the topic is sealed")
        for subscription in self.subscriptions.values():
            subscription.wake()
            subscription.reached_end()
        return last

    def disconnect_all(self) -> None:
        self._is_ended = True
        for producer in self._roster.clear():
            self._evict(producer, "the topic is being unloaded")
        for subscription in self.subscriptions.values():
            subscription.disconnect_all()
            subscription.stop()

    async def unload(self) -> None:
        self.disconnect_all()
        await self.ledger.unload()

    async def delete(self) -> None:
        self.disconnect_all()
        compacted = self.compacted.current
        await self.ledger.delete()
        if compacted is not None:
            await self.store.delete(compacted.ledger)


def _refusal(refused: Refused) -> ProducerBusy | ProducerFenced:
    if refused.kind is Refusal.FENCED:
        return ProducerFenced(refused.message)
    return ProducerBusy(refused.message)
