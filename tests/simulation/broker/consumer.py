"""A consumer as clients have them: permits, acknowledgements of all kinds, second thoughts.

What arrives is told to the history at once, then acknowledged now, later, in part, cumulatively,
asked for again, or left lying; now and then the consumer closes itself and comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from anabranch.protocol import wire_pb2
from anabranch.protocol.entries import parse_entry
from anabranch.protocol.wire_codec import Ack, Delivery, WireId
from anabranch.storage.cursor import encode_ack_set
from anabranch.topics.positions import Position
from tests.simulation.broker.link import Client, Link, LinkLost, RequestRefused
from tests.simulation.broker.subscription_history import (
    IN_ORDER,
    Attachment,
    SubscriptionHistory,
    SubType,
    now,
)


@dataclass(frozen=True, slots=True)
class Manners:
    permits: int = 20
    receipt_share: float = 0.6
    again_share: float = 0.05
    leave_share: float = 0.05  # never acknowledged by this attachment
    part_share: float = 0.3  # of batches
    pause_seconds: float = 0.02
    close_share: float = 0.02
    ask_share: float = 0.1  # for the last message id


class ModelConsumer:
    def __init__(
        self,
        client: Client,
        number: int,
        name: str,
        subscription: SubscriptionHistory,
        manners: Manners,
        random: Random,
    ) -> None:
        self.client = client
        self.number = number
        self.name = name
        self.subscription = subscription
        self.manners = manners
        self.random = random
        self.is_stopping = False
        self.only_looks = False  # takes what comes, and acknowledges nothing
        self._link: Link | None = None
        self._here: Attachment | None = None
        self._to_ack: list[Position] = []
        self._counts: dict[Position, int] = {}
        self._spent = 0
        self._epoch = 0
        self._is_open = False
        self._news = asyncio.Event()

    @property
    def is_attached(self) -> bool:
        return self._here is not None and self._here.attached_at is not None

    def seen(self) -> set[Position]:
        return set() if self._here is None else self._here.seen

    async def run(self) -> None:
        while not self.is_stopping:
            try:
                link = await self.client.link()
                await self._attach(link)
                await self._work(link)
            except (RequestRefused, LinkLost):
                self._over()
                await asyncio.sleep(self.random.uniform(0.05, 1.0))

    async def _attach(self, link: Link) -> None:
        self._to_ack, self._spent, self._link = [], 0, link
        self._here = self.subscription.begin(self.name)
        kind = self.subscription.kind
        command = wire_pb2.CommandSubscribe(
            topic=self.subscription.topic.name,
            subscription=self.subscription.name,
            subType=kind,
            consumer_id=self.number,
            consumer_name=self.name,
            initialPosition=wire_pb2.CommandSubscribe.InitialPosition.Earliest,
        )
        if kind in IN_ORDER:
            command.consumer_epoch = self._epoch
        link.consumers[self.number] = self
        self._is_open = True
        await link.request(command)
        self.subscription.attached(self._here)
        self._flow(self.manners.permits)

    async def _something_comes(self) -> None:
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.random.random()):
                await self._news.wait()

    async def _ask_for_the_last(self, link: Link) -> None:
        here, sent_at = self._here, now()
        assert here is not None
        least = self.subscription.last_owed()
        command = wire_pb2.CommandGetLastMessageId(consumer_id=self.number)
        answer = await link.request(command)
        assert isinstance(answer, wire_pb2.CommandGetLastMessageIdResponse)
        last = Position(_signed(answer.last_message_id.ledgerId), answer.last_message_id.entryId)
        assert last >= least, f"{last} is called the last, {least} was answered before"
        here.proved_at = max(here.proved_at, sent_at)

    def _over(self) -> None:
        if self._here is not None:
            self._here.is_over = True
        if self._link is not None:
            self._link.consumers.pop(self.number, None)

    async def _work(self, link: Link) -> None:
        while not self.is_stopping and self._is_open:
            if link.is_lost:
                raise LinkLost
            if self._to_ack:
                await asyncio.sleep(self.manners.pause_seconds * self.random.random())
            else:
                await self._something_comes()
            if link.is_lost or not self._is_open:
                continue
            self._acknowledge_some()
            if self.random.random() < self.manners.ask_share:
                await self._ask_for_the_last(link)
            if self.random.random() < self.manners.close_share:
                break
        if self._is_open and not link.is_lost:
            self._over()
            await link.request(wire_pb2.CommandCloseConsumer(consumer_id=self.number))
        self._over()

    # What the link calls

    def received(self, delivery: Delivery) -> None:
        assert self._here is not None
        position = Position(delivery.id.ledger, delivery.id.entry)
        entry = parse_entry(delivery.body)
        assert entry.is_intact, f"{position} is damaged"
        if self.subscription.kind in IN_ORDER and delivery.consumer_epoch < self._epoch:
            self._spend(entry.metadata.num_messages_in_batch)
            return  # sent before it was asked for again
        bits = None if delivery.ack_set is None else bits_of(delivery.ack_set)
        content = bytes(entry.payload).rstrip(b"\0")
        wall_ms = self.client.world.clock.wall_ms()
        message = self.subscription.deliver(self._here, content, position, bits, wall_ms)
        self._counts[position] = message.count
        self._spend(message.count if bits is None else bits.bit_count())
        self._consider(position)
        self._news.set()

    def became_active(self, is_active: bool) -> None:
        if is_active and self._here is not None:
            self._here.start_over()
            self._to_ack = []

    def closed_by_broker(self) -> None:
        self._is_open = False
        self._news.set()
        self._over()

    # What it says

    def _spend(self, messages: int) -> None:
        self._spent += messages
        if self._spent >= self.manners.permits // 2:
            permits, self._spent = self._spent, 0
            self._flow(permits)

    def _flow(self, permits: int) -> None:
        if self._link is not None and not self._link.is_lost:
            self._link.connection.send_flow(self.number, permits)
            self._link.flush()

    def _consider(self, position: Position) -> None:
        chance = self.random.random()
        manners = self.manners
        if chance < manners.leave_share or self.only_looks:
            return
        if chance < manners.leave_share + manners.again_share:
            self._ask_again(position)
        elif self._counts[position] > 1 and self.random.random() < manners.part_share:
            self._acknowledge_part(position)
        else:
            self._to_ack.append(position)

    def _ask_again(self, position: Position) -> None:
        assert self._here is not None
        assert self._link is not None
        command = wire_pb2.CommandRedeliverUnacknowledgedMessages(consumer_id=self.number)
        if self.subscription.kind in IN_ORDER:
            self._epoch += 1
            command.consumer_epoch = self._epoch
            self._here.start_over()
            self._to_ack = []
        else:
            command.message_ids.add(ledgerId=position.ledger, entryId=position.entry)
            self._here.asked_again(position)
        self._link.send(command)

    def _acknowledge_some(self) -> None:
        positions, self._to_ack = self._to_ack, []
        if not positions:
            return
        if self.subscription.kind in IN_ORDER and self.random.random() < 0.4:
            self._acknowledge([positions[-1]], is_cumulative=True)
        else:
            self._acknowledge(positions)

    def _acknowledge(self, positions: list[Position], *, is_cumulative: bool = False) -> None:
        assert self._here is not None
        covered = self.subscription.up_to(positions[-1]) if is_cumulative else positions
        self.subscription.ask(self._here, covered)
        ack = self._ack([_wire_id(each) for each in positions])
        ack.is_cumulative = is_cumulative
        if self.random.random() < self.manners.receipt_share:
            confirm = partial(self.subscription.confirm, self._here, covered, now())
            self._with_receipt(ack, confirm)
        self._say(ack)

    def _acknowledge_part(self, position: Position) -> None:
        """Some messages of a batch; the rest is left, or taken with the next ones."""
        assert self._here is not None
        left = self.random.randrange(1, (1 << self._counts[position]) - 1)
        self.subscription.ask_part(self._here, position, left)
        wire_id = _wire_id(position)
        wire_id.ack_set = encode_ack_set(left)
        ack = self._ack([wire_id])
        confirm = partial(self.subscription.confirm_part, self._here, position, left, now())
        self._with_receipt(ack, confirm)
        self._say(ack)
        if self.random.random() < 0.7:
            self._to_ack.append(position)

    def _ack(self, ids: list[WireId]) -> Ack:
        ack = Ack()
        ack.consumer_id = self.number
        ack.ids = ids
        return ack

    def _with_receipt(self, ack: Ack, confirm: partial[None]) -> None:
        assert self._link is not None

        def answered(answer: Any) -> None:
            if answer is not None and not answer.HasField("error"):
                confirm()

        ack.has_request_id = True
        ack.request_id = self._link.next_request(answered)

    def _say(self, ack: Ack) -> None:
        assert self._link is not None
        if not self._link.is_lost:
            self._link.connection.send_ack(ack)
            self._link.flush()


def _wire_id(position: Position) -> WireId:
    wire_id = WireId()
    wire_id.ledger, wire_id.entry = position
    return wire_id


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def bits_of(words: list[int]) -> int:
    bits = 0
    for index, word in enumerate(words):
        bits |= (word & (1 << 64) - 1) << (64 * index)
    return bits


__all__ = ["Manners", "ModelConsumer", "SubType", "bits_of"]
