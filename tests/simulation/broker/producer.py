"""A producer as clients have them: named, with a window, sending again what was not answered.

After every loss it opens itself anew and sends everything unanswered again, in order, with the
same sequence ids. On one connection answers must come in the order of the sends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from random import Random

from anabranch.protocol import wire_pb2
from anabranch.protocol.entries import build_entry
from anabranch.protocol.wire_codec import Receipt, Send
from anabranch.topics.positions import Position
from tests.simulation.broker.link import Client, Link, LinkLost, RequestRefused
from tests.simulation.broker.topic_history import Message, TopicHistory

Mode = wire_pb2.ProducerAccessMode


@dataclass(frozen=True, slots=True)
class Habits:
    """What this producer sends, and how fast."""

    entries: int
    keys: int = 3
    pause_seconds: float = 0.005
    filler_bytes: int = 0
    mode: int = Mode.Shared
    delay_share: float = 0.0  # of messages that are to be delivered later
    window: int = 8  # entries sent and not answered


class ModelProducer:
    def __init__(
        self,
        client: Client,
        number: int,
        name: str,
        topic: TopicHistory,
        habits: Habits,
        random: Random,
    ) -> None:
        self.client = client
        self.number = number
        self.name = name
        self.topic = topic
        self.habits = habits
        self.random = random
        self.pending: deque[Message] = deque()  # sent at some time, not answered
        self.left = habits.entries
        self.held: list[tuple[int, float, float]] = []  # epoch, from, to: had the topic alone
        self._epoch = 0
        self._topic_epoch: int | None = None
        self._next_sequence = 0
        self._link: Link | None = None
        self._under_way: deque[tuple[Message, float]] = deque()  # sent on this link, and when
        self._since = 0.0
        self._changed = asyncio.Event()
        self._is_open = False

    @property
    def is_done(self) -> bool:
        return not self.left and not self.pending

    async def run(self) -> None:
        while not self.is_done:
            try:
                link = await self.client.link()
                await self._open(link)
                await self._feed(link)
                if not self.is_done:  # closed by the broker, perhaps for lack of a disk
                    await asyncio.sleep(self.random.uniform(0.01, 0.2))
            except RequestRefused as refused:
                if self._is_fenced(refused):
                    return
                await asyncio.sleep(self.random.uniform(0.05, 1.0))
            except LinkLost:
                await asyncio.sleep(self.random.uniform(0.05, 1.0))

    def _is_fenced(self, refused: RequestRefused) -> bool:
        """It had the topic for itself and lost it: what is pending will never be answered."""
        if refused.error != wire_pb2.ServerError.ProducerFenced or self._topic_epoch is None:
            return False
        self.give_up()
        return True

    def give_up(self) -> None:
        """What is pending may be stored or not, and nobody will know."""
        self.left = 0
        self.pending.clear()
        self._under_way.clear()
        if self._link is not None:
            self._link.producers.pop(self.number, None)

    async def _open(self, link: Link) -> None:
        self._epoch += 1
        command = wire_pb2.CommandProducer(
            topic=self.topic.name,
            producer_id=self.number,
            producer_name=self.name,
            epoch=self._epoch,
            producer_access_mode=self.habits.mode,  # type: ignore[arg-type]
        )
        if self._topic_epoch is not None:
            command.topic_epoch = self._topic_epoch
        is_waiting = self.habits.mode == Mode.WaitForExclusive
        answer = await link.request(command, **({"patience": None} if is_waiting else {}))
        assert isinstance(answer, wire_pb2.CommandProducerSuccess)
        assert answer.producer_name == self.name
        self._became_open(link, answer)

    def _became_open(self, link: Link, answer: wire_pb2.CommandProducerSuccess) -> None:
        self._link, self._is_open = link, True
        self._since = asyncio.get_running_loop().time()
        self._under_way.clear()
        link.producers[self.number] = self
        if self.habits.mode != Mode.Shared:
            known = self._topic_epoch
            assert known is None or answer.topic_epoch == known, f"{known} became {answer}"
            self._topic_epoch = answer.topic_epoch

    async def _feed(self, link: Link) -> None:
        for message in self.pending:
            self._send(link, message)
        link.flush()
        while not self.is_done:
            if link.is_lost:
                raise LinkLost
            if not self._is_open:
                return
            if self.left and len(self.pending) < self.habits.window:
                self._send_some(link)
                await asyncio.sleep(self.random.random() * self.habits.pause_seconds)
            else:
                await self._something_happens(link)
        link.producers.pop(self.number, None)

    async def _something_happens(self, link: Link) -> None:
        self._changed.clear()
        try:
            async with asyncio.timeout(60.0):
                waits = [asyncio.ensure_future(each.wait()) for each in (self._changed, link.lost)]
                try:
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for each in waits:
                        each.cancel()
        except TimeoutError:
            link.abort()  # a send that is not answered in time

    def _send_some(self, link: Link) -> None:
        room = self.habits.window - len(self.pending)
        for _ in range(min(self.left, room, self.random.choice((1, 1, 4)))):
            count = self.random.choice((1, 1, 1, 3))
            message = Message(
                self.name,
                self._next_sequence,
                count,
                f"k{self.random.randrange(self.habits.keys)}",
                -1 if self._topic_epoch is None else self._topic_epoch,
                self._due_ms(),
            )
            self._next_sequence += count
            self.left -= 1
            self.pending.append(message)
            self._send(link, message)
        link.flush()

    def _due_ms(self) -> int:
        if self.random.random() >= self.habits.delay_share:
            return 0
        return self.client.world.clock.wall_ms() + self.random.randint(1, 4000)

    def _send(self, link: Link, message: Message) -> None:
        if link.is_lost:
            return
        self.topic.sent(message)
        self._under_way.append((message, asyncio.get_running_loop().time()))
        send = Send()
        send.producer_id = self.number
        send.sequence_id = message.sequence
        if message.count > 1:
            send.highest_sequence_id = message.sequence + message.count - 1
            send.num_messages = message.count
        link.connection.send_entry(send, entry_of(message, self.habits.filler_bytes))

    # What the link calls

    def received_receipt(self, receipt: Receipt) -> None:
        assert self._under_way, f"{receipt} for nothing"
        message, sent_at = self._under_way.popleft()
        highest = message.sequence + message.count - 1 if message.count > 1 else 0
        assert (receipt.sequence_id, receipt.highest_sequence_id) == (message.sequence, highest), (
            f"{receipt} where {message} was the next to be answered"
        )
        assert receipt.id is not None
        self.topic.answer(message, Position(receipt.id.ledger, receipt.id.entry))
        assert self.pending.popleft() == message
        if self._topic_epoch is not None:
            self.held.append((self._topic_epoch, self._since, sent_at))
        self._changed.set()

    def received_error(self, error: wire_pb2.CommandSendError) -> None:
        """Clients drop the connection and send again."""
        assert error.error == wire_pb2.ServerError.PersistenceError, error
        assert self._link is not None
        self._link.abort()

    def closed_by_broker(self) -> None:
        self._is_open = False
        self._changed.set()


def entry_of(message: Message, filler_bytes: int = 0) -> bytes:
    metadata = wire_pb2.MessageMetadata(
        producer_name=message.producer,
        sequence_id=message.sequence,
        publish_time=1,
        partition_key=message.key,
    )
    if message.due_ms:
        metadata.deliver_at_time = message.due_ms
    if message.count > 1:
        metadata.num_messages_in_batch = message.count
        metadata.highest_sequence_id = message.sequence + message.count - 1
    return build_entry(metadata, message.id + b"\0" * filler_bytes)
