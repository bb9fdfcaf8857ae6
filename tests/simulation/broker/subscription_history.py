"""What the consumers of one subscription got and acknowledged, and what that rules out.

A consumer here is one attachment: from a SUBSCRIBE to the loss of its connection or its close.
Everything is told by the clients, so what a dead connection still delivers late must not be held
against the broker. Two attachments that exclude each other are a fault only if both *proved* to
be attached afterwards: by the receipt of an acknowledgement that they sent later.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from anabranch.protocol import wire_pb2
from anabranch.topics.positions import EARLIEST, Position
from tests.simulation.broker.topic_history import Message, TopicHistory

SubType = wire_pb2.CommandSubscribe.SubType
ALL = (1 << 64) - 1  # messages of a batch; there are never more in one
IN_ORDER = (SubType.Exclusive, SubType.Failover)


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass(eq=False)
class Attachment:
    name: str
    began_at: float  # before the broker could know of it
    attached_at: float | None = None
    proved_at: float = -1.0  # it was attached after this moment
    seen: set[Position] = field(default_factory=set)  # since the broker was to start over
    again: Counter[Position] = field(default_factory=Counter)  # asked for, not here yet
    last: Position = EARLIEST
    held: dict[Position, str] = field(default_factory=dict)  # and its key
    confirmed: set[Position] = field(default_factory=set)
    confirmed_parts: set[Position] = field(default_factory=set)
    is_over: bool = False  # as far as the client knows

    def start_over(self) -> None:
        """It asked for everything again, or has just become the active one."""
        self.seen.clear()
        self.last = EARLIEST

    def asked_again(self, position: Position) -> None:
        self.again[position] += 1
        self.held.pop(position, None)


@dataclass
class Conflict:
    at: float
    key: str
    message: Message
    both: tuple[Attachment, Attachment]


@dataclass
class SubscriptionHistory:
    name: str
    kind: SubType
    topic: TopicHistory
    created: asyncio.Event = field(default_factory=asyncio.Event)
    attachments: list[Attachment] = field(default_factory=list)
    delivered: set[bytes] = field(default_factory=set)
    asked: set[Position] = field(default_factory=set)  # acknowledged at all
    sure: dict[Position, float] = field(default_factory=dict)  # with a receipt, since when
    parts: dict[Position, tuple[int, float]] = field(default_factory=dict)  # bits left, since when
    asked_parts: dict[Position, int] = field(default_factory=dict)  # bits left, if all arrived
    conflicts: list[Conflict] = field(default_factory=list)
    _first_order: dict[tuple[str, str], Message] = field(default_factory=dict)

    # Attachments

    def begin(self, name: str) -> Attachment:
        attachment = Attachment(name, now())
        self.attachments.append(attachment)
        return attachment

    def attached(self, attachment: Attachment) -> None:
        self.created.set()
        attachment.attached_at = now()

    # Deliveries

    def deliver(
        self,
        attachment: Attachment,
        content: bytes,
        position: Position,
        bits: int | None = None,
        wall_ms: int = 0,
    ) -> Message:
        message = self.topic.see(content, position)
        if self.kind == SubType.Shared:
            assert message.due_ms <= wall_ms, f"{self.name}: {message} came at {wall_ms}"
        self._check_forgotten(attachment, position, bits)
        self._check_twice(attachment, position)
        if self.kind in IN_ORDER:
            assert position > attachment.last, f"{position} came after {attachment.last}"
        if self.kind == SubType.Key_Shared:
            self._note_conflicts(attachment, message)
        if content not in self.delivered:
            self._check_first(message)
            self.delivered.add(content)
        attachment.last = position
        attachment.seen.add(position)
        attachment.held[position] = message.key
        return message

    def _check_forgotten(self, here: Attachment, position: Position, bits: int | None) -> None:
        since = self.sure.get(position)
        assert since is None or (since >= here.began_at and position not in here.confirmed), (
            f"{self.name}: the acknowledgement of {position} was confirmed at {since}, "
            f"and forgotten: {here.name} of {here.began_at} got it"
        )
        left, since = self.parts.get(position, (ALL, 0.0))
        if since < here.began_at or position in here.confirmed_parts:
            assert not (ALL if bits is None else bits) & ~left, (
                f"{self.name}: of {position} only {left:b} is left, {here.name} got {bits}"
            )

    def _check_twice(self, here: Attachment, position: Position) -> None:
        if position not in here.seen:
            return
        assert here.again[position] > 0, f"{self.name}: {here.name} got {position} twice"
        here.again[position] -= 1

    def _note_conflicts(self, here: Attachment, message: Message) -> None:
        for other in self.attachments:
            if other is not here and not other.is_over and message.key in other.held.values():
                self.conflicts.append(Conflict(now(), message.key, message, (other, here)))

    def _check_first(self, message: Message) -> None:
        if self.kind == SubType.Shared:
            return
        group = (message.producer, message.key if self.kind == SubType.Key_Shared else "")
        before = self._first_order.get(group)
        assert before is None or before.sequence < message.sequence, (
            f"{self.name}: {message} was delivered first after {before}"
        )
        self._first_order[group] = message

    # Acknowledgements

    def ask(self, attachment: Attachment, positions: list[Position]) -> None:
        self.asked.update(positions)
        for position in positions:
            attachment.held.pop(position, None)

    def ask_part(self, attachment: Attachment, position: Position, left: int) -> None:
        self.asked_parts[position] = self.asked_parts.get(position, ALL) & left
        if not self.asked_parts[position]:
            self.ask(attachment, [position])

    def confirm(self, attachment: Attachment, positions: list[Position], sent_at: float) -> None:
        attachment.proved_at = max(attachment.proved_at, sent_at)
        attachment.confirmed.update(positions)
        for position in positions:
            self.sure.setdefault(position, now())

    def confirm_part(
        self, attachment: Attachment, position: Position, left: int, sent_at: float
    ) -> None:
        attachment.proved_at = max(attachment.proved_at, sent_at)
        attachment.confirmed_parts.add(position)
        self.parts[position] = (self.parts.get(position, (ALL, 0.0))[0] & left, now())

    def up_to(self, position: Position) -> list[Position]:
        """What a cumulative acknowledgement covers, of what anybody knows."""
        return [each for each in self.topic.stored if each <= position]

    def last_owed(self) -> Position:
        """The last entry that a producer knows of and this subscription still needs."""
        answered = [each for each in self.topic.answered.values() if each is not None]
        return max((each for each in answered if each not in self.asked), default=EARLIEST)

    # The end

    def undelivered(self) -> list[bytes]:
        return [each for each in self.topic.answered if each not in self.delivered]

    def unacknowledged(self) -> set[Position]:
        return set(self.topic.stored) - self.asked

    def check_exclusion(self) -> None:
        for conflict in self.conflicts:
            assert min(each.proved_at for each in conflict.both) < conflict.at, (
                f"{self.name}: {[each.name for each in conflict.both]} both hold key "
                f"{conflict.key} at {conflict.at}, when {conflict.message} comes"
            )
        if self.kind == SubType.Exclusive:
            self._check_one_holder()

    def _check_one_holder(self) -> None:
        held = [
            (each.attached_at, each.proved_at, each.name)
            for each in self.attachments
            if each.attached_at is not None and each.proved_at > each.attached_at
        ]
        held.sort()
        for (_, end, name), (start, _, other) in pairwise(held):
            assert end <= start, f"{self.name}: {name} until {end} and {other} from {start}"


__all__ = ["Attachment", "SubType", "SubscriptionHistory", "now"]
