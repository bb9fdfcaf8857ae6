"""A consumer of this broker: where its entries go, and how much it asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from anabranch.broker.rates import RateMeter
from anabranch.broker.receivers import Receiver
from anabranch.protocol import wire_pb2
from anabranch.protocol.entries import without_broker_block
from anabranch.storage.ledger import Entry

if TYPE_CHECKING:
    from anabranch.broker.session import Session
    from anabranch.broker.subscription import Subscription

NO_EPOCH = -1
BROKER_MAGIC = b"\x0e\x02"


class Consumer:
    def __init__(
        self,
        session: Session,
        number: int,
        receiver: Receiver,
        *,
        epoch: int = NO_EPOCH,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        self.session = session
        self.id = number  # the client's, unique on its connection
        self.receiver = receiver
        self.epoch = epoch
        self.metadata = dict(metadata or {})
        self.subscription: Subscription | None = None
        self.connected_at_ms = 0
        self.meter = RateMeter(0.0)  # what it got, from its attachment on
        self.acked = RateMeter(0.0)
        self.was_told_the_end = False

    def __repr__(self) -> str:
        return f"Consumer({self.receiver!r} on {self.session.peer})"

    @property
    def name(self) -> str:
        return self.receiver.name

    def deliver(
        self,
        entry: Entry,
        *,
        partition: int = -1,
        redelivery_count: int = 0,
        ack_set: list[int] | None = None,
    ) -> None:
        body = entry.body
        if body[:2] == BROKER_MAGIC and not self.session.takes_broker_block:
            body = without_broker_block(body)
        self.session.connection.send_delivery(
            self.id,
            entry.ledger,
            entry.entry,
            body,
            partition=partition,
            redelivery_count=redelivery_count,
            ack_set=ack_set,
            consumer_epoch=self.epoch,
        )

    def deliver_plain(self, entries: Sequence[Entry], partition: int) -> int:
        """Entries with nothing to be said about them but where they are; how many bytes."""
        bodies = [entry.body for entry in entries]
        if not self.session.takes_broker_block:
            bodies = [
                without_broker_block(body) if body[:2] == BROKER_MAGIC else body for body in bodies
            ]
        first, last = entries[0], entries[-1]
        is_run = first.ledger == last.ledger and last.entry - first.entry == len(entries) - 1
        connection = self.session.connection
        if is_run:
            connection.send_deliveries(
                self.id,
                first.ledger,
                first.entry,
                bodies,
                partition=partition,
                consumer_epoch=self.epoch,
            )
        else:
            for entry, body in zip(entries, bodies, strict=True):
                connection.send_delivery(
                    self.id,
                    entry.ledger,
                    entry.entry,
                    body,
                    partition=partition,
                    consumer_epoch=self.epoch,
                )
        return sum(map(len, bodies))

    def tell_active(self, is_active: bool) -> None:
        if self.session.protocol_version >= 12:
            self.session.send(
                wire_pb2.CommandActiveConsumerChange(consumer_id=self.id, is_active=is_active)
            )

    def tell_end(self) -> None:
        if not self.was_told_the_end:
            self.was_told_the_end = True
            self.session.send(wire_pb2.CommandReachedEndOfTopic(consumer_id=self.id))
