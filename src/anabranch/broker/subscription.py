"""A subscription: one cursor, and however many consumers share it.

How it delivers is decided by its first consumer and kept while any is attached.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from anabranch.broker.consumer import Consumer
from anabranch.broker.dispatch_limits import NO_LIMITS, DispatchLimits, dispatch_limit
from anabranch.broker.key_shared import AutoSplit, EntryBuckets, SlotOwners, StickyRanges
from anabranch.broker.policies import EffectivePolicies
from anabranch.broker.rates import RateMeter
from anabranch.broker.shared_pump import SharedPump
from anabranch.broker.single_delivery import SingleDelivery
from anabranch.errors import BadAssignment, ConsumerBusy, NotAllowed
from anabranch.protocol import wire_pb2
from anabranch.protocol.wire_codec import Ack
from anabranch.storage.managed_cursors import ManagedCursor
from anabranch.storage.managed_ledger import ManagedLedger
from anabranch.topics.positions import Position

if TYPE_CHECKING:
    from anabranch.broker.topic import Topic

log = logging.getLogger(__name__)

SubType = wire_pb2.CommandSubscribe.SubType
SHARED_TYPES = (SubType.Shared, SubType.Key_Shared)


class Subscription:
    def __init__(self, topic: Topic, cursor: ManagedCursor) -> None:
        self.topic = topic
        self.cursor = cursor
        self.kind: SubType | None = None  # None until somebody attached
        self.consumers: dict[int, Consumer] = {}  # by the id of their receiver
        self.delivery: SingleDelivery | SharedPump | None = None
        self.meter: RateMeter = topic.new_meter()
        self.expired: RateMeter = topic.new_meter()
        self.redelivered: RateMeter = topic.new_meter()
        self.limits = self._new_limits()
        self._key_shared: wire_pb2.KeySharedMeta | None = None
        self._is_seeking = False
        self.is_awaited = False  # its consumers were sent away by a seek and will be back

    # What a delivery asks for

    @property
    def name(self) -> str:
        return self.cursor.name

    @property
    def title(self) -> str:
        return f"{self.topic.name} {self.name}"

    @property
    def ledger(self) -> ManagedLedger:
        return self.topic.ledger

    @property
    def partition(self) -> int:
        return self.topic.partition

    def now_seconds(self) -> float:
        return self.topic.clock.monotonic()

    def _new_limits(self) -> DispatchLimits:
        topic = self.topic
        own = dispatch_limit(topic.policies.subscription_dispatch_rate, self.now_seconds())
        found = [limit for limit in (topic.dispatch_limit, own) if limit is not None]
        return DispatchLimits(found) if found else NO_LIMITS

    def apply_policies(self, former: EffectivePolicies) -> None:
        now = self.topic.policies
        if (former.topic_dispatch_rate, former.subscription_dispatch_rate) != (
            now.topic_dispatch_rate,
            now.subscription_dispatch_rate,
        ):
            self.limits = self._new_limits()
        if isinstance(self.delivery, SharedPump):
            self.delivery.limit_unacked(
                now.max_unacked_per_consumer, now.max_unacked_per_subscription
            )
        self.wake()

    # Consumers

    def check(self, command: wire_pb2.CommandSubscribe) -> None:
        """Whether a consumer of this kind may join those that are there."""
        if self._is_seeking:
            raise ConsumerBusy(f"{self.title} is being moved; subscribe again")
        if not self.consumers:
            return
        if command.subType != self.kind:
            assert self.kind is not None
            raise ConsumerBusy(
                f"{self.title} is {SubType.Name(self.kind)}; it cannot be "
                f"{SubType.Name(command.subType)} while consumers are attached"
            )
        if self.kind == SubType.Exclusive:
            holder = next(iter(self.consumers.values()))
            raise ConsumerBusy(f"{self.title} is exclusive and held by {holder.name!r}")
        if self.kind == SubType.Key_Shared:
            self._check_key_shared(command.keySharedMeta)

    def _check_key_shared(self, wanted: wire_pb2.KeySharedMeta) -> None:
        there = self._key_shared
        assert there is not None
        if there.keySharedMode != wanted.keySharedMode or (
            there.entryBucketDispatch != wanted.entryBucketDispatch
        ):
            raise BadAssignment(f"{self.title} has consumers of another Key_Shared mode")

    def attach(self, consumer: Consumer, command: wire_pb2.CommandSubscribe) -> None:
        self.check(command)
        if self.delivery is None:
            self.kind = command.subType
            self._key_shared = command.keySharedMeta
            self.delivery = self._new_delivery(command)
        try:
            if isinstance(self.delivery, SharedPump):
                ranges = command.keySharedMeta.hashRanges
                self.delivery.attach(consumer, [(each.start, each.end) for each in ranges])
            else:
                self.delivery.attach(consumer)
        except BadAssignment:
            self._stop_if_idle()
            raise
        self.is_awaited = False
        consumer.subscription = self
        consumer.meter, consumer.acked = self.topic.new_meter(), self.topic.new_meter()
        consumer.connected_at_ms = self.topic.clock.wall_ms()
        self.consumers[consumer.receiver.consumer] = consumer

    def _new_delivery(self, command: wire_pb2.CommandSubscribe) -> SingleDelivery | SharedPump:
        if command.subType not in SHARED_TYPES:
            compacted = self.topic.compacted
            return SingleDelivery(
                self,
                str(self.topic.name),
                compacted.read if command.read_compacted else self.ledger.read,
                is_failover=command.subType == SubType.Failover,
                is_compacted=command.read_compacted,
                max_message_bytes=self.topic.policies.max_message_bytes,
            )
        owners: SlotOwners | None = None
        if command.subType == SubType.Key_Shared:
            owners = _owners_for(command.keySharedMeta)
        return SharedPump(
            self,
            self.topic.clock,
            owners,
            subscription_limit=self.topic.policies.max_unacked_per_subscription,
            is_delay_honoured=self.topic.policies.delayed_delivery.is_active,
        )

    def detach(self, consumer: Consumer) -> None:
        if self.consumers.pop(consumer.receiver.consumer, None) is None:
            return
        consumer.subscription = None
        if self.delivery is not None:
            self.delivery.detach(consumer)
        self._stop_if_idle()

    def _stop_if_idle(self) -> None:
        if not self.consumers and self.delivery is not None:
            self.delivery.stop()
            self.delivery = None

    def disconnect_all(self) -> None:
        """The clients are told, and will subscribe again."""
        for consumer in list(self.consumers.values()):
            consumer.session.close_consumer(consumer)

    def stop(self) -> None:
        if self.delivery is not None:
            self.delivery.stop()
            self.delivery = None

    # Flow

    def wake(self) -> None:
        if self.delivery is not None:
            self.delivery.wake()

    def flow(self, consumer: Consumer, permits: int) -> None:
        consumer.receiver.allow(permits)
        self.wake()

    def redeliver(
        self, consumer: Consumer, positions: list[Position] | None, epoch: int | None
    ) -> None:
        if self.delivery is not None:
            asked = consumer.receiver.unacked if positions is None else len(positions)
            self.redelivered.record(self.now_seconds(), asked, 0)
            self.delivery.ask_again(consumer, positions, epoch)

    def acknowledge(self, consumer: Consumer, ack: Ack) -> None:
        if ack.has_txn:
            raise NotAllowed("transactions are not enabled here")
        consumer.acked.record(self.now_seconds(), len(ack.ids), 0)
        if ack.is_cumulative:
            self._acknowledge_cumulative(ack)
            return
        positions = [Position(each.ledger, each.entry) for each in ack.ids]
        whole = [
            position for position, each in zip(positions, ack.ids, strict=True) if not each.ack_set
        ]
        if whole:
            self.cursor.acknowledge(whole)
        for position, each in zip(positions, ack.ids, strict=True):
            if each.ack_set:
                self.cursor.acknowledge_batch(position, each.ack_set)
        if self.delivery is not None:
            self.delivery.acknowledged(consumer, positions)
        self._look_for_end()

    def _acknowledge_cumulative(self, ack: Ack) -> None:
        if self.kind in SHARED_TYPES or not ack.ids:
            return  # upstream ignores these too
        last = ack.ids[-1]
        self.cursor.acknowledge_cumulative(Position(last.ledger, last.entry), last.ack_set or ())
        self._look_for_end()

    def _look_for_end(self) -> None:
        if self.topic.is_sealed:
            self.reached_end()

    def reached_end(self) -> None:
        """There is nothing to read now; if there never will be, the consumers are told."""
        if self.topic.is_sealed and self.cursor.backlog == 0:
            for consumer in self.consumers.values():
                consumer.tell_end()

    async def seek(self, position: Position) -> None:
        if self._is_seeking:
            raise NotAllowed(f"{self.title} is being moved already")
        self._is_seeking = self.is_awaited = True
        try:
            self.disconnect_all()
            await self.cursor.seek(position)
        finally:
            self._is_seeking = False

    def moved(self) -> None:
        """The mark-delete position went forward without acknowledgements: a skip, an expiry."""
        if self.delivery is not None:
            self.delivery.moved()
        self._look_for_end()


def _owners_for(meta: wire_pb2.KeySharedMeta) -> SlotOwners:
    if meta.entryBucketDispatch:
        return EntryBuckets()
    if meta.keySharedMode == wire_pb2.KeySharedMode.STICKY:
        return StickyRanges()
    return AutoSplit()
