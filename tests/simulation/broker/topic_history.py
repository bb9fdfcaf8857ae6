"""What producers sent to one topic and were told about it, and what anybody saw of it since.

The rules, from wherever a message is seen:

- invented: what is delivered was sent, and is intact;
- a position holds one message for ever, and it is the one that was answered with this position;
- duplicate: a message is stored at most as often as it was sent, and once if sends are
  deduplicated;
- reordered: what one producer has in the ledger is in its order, second tries apart;
- fenced: where producers have the topic for themselves, epochs never fall along the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from anabranch.topics.positions import Position


@dataclass(frozen=True, slots=True)
class Message:
    """One entry: alone, or a batch whose inside is nobody's business."""

    producer: str
    sequence: int
    count: int  # messages in it
    key: str
    epoch: int = -1  # of its producer, if that has the topic for itself
    due_ms: int = 0  # not to be delivered before, on Shared subscriptions

    @property
    def id(self) -> bytes:
        parts = (self.producer, self.sequence, self.count, self.key, self.epoch, self.due_ms)
        return "/".join(map(str, parts)).encode()


@dataclass
class TopicHistory:
    name: str
    is_deduplicated: bool = False
    sends: dict[bytes, int] = field(default_factory=dict)  # how often
    messages: dict[bytes, Message] = field(default_factory=dict)
    answered: dict[bytes, Position | None] = field(
        default_factory=dict
    )  # None: a double, somewhere
    stored: dict[Position, bytes] = field(default_factory=dict)
    places: dict[bytes, set[Position]] = field(default_factory=dict)

    def sent(self, message: Message) -> None:
        self.messages[message.id] = message
        self.sends[message.id] = self.sends.get(message.id, 0) + 1

    def answer(self, message: Message, position: Position) -> None:
        assert message.id not in self.answered, f"{message} was answered twice"
        if position.ledger < 0:
            assert self.is_deduplicated, f"{message} is no double, nobody looks for doubles"
            assert self.sends[message.id] > 1, f"{message} was sent once, and called a double"
            self.answered[message.id] = None
            return
        self.answered[message.id] = position
        self.see(message.id, position)

    def see(self, content: bytes, position: Position) -> Message:
        """Somebody was told, or saw, that this lies there."""
        assert content in self.messages, f"{position} holds {content!r}, which nobody sent"
        there = self.stored.setdefault(position, content)
        assert there == content, f"{position} holds {content!r}, and held {there!r}"
        places = self.places.setdefault(content, set())
        places.add(position)
        most = 1 if self.is_deduplicated else self.sends[content]
        assert len(places) <= most, (
            f"{content!r}, sent {self.sends[content]} times, lies at {sorted(places)}"
        )
        return self.messages[content]

    def check_order(self) -> None:
        """After the run: the ledger as far as anybody saw it."""
        self._check_epochs()
        last: dict[str, Message] = {}
        first_places = {min(places): content for content, places in self.places.items()}
        for position in sorted(first_places):
            message = self.messages[first_places[position]]
            before = last.get(message.producer)
            assert before is None or before.sequence < message.sequence, (
                f"{message} lies at {position}, behind {before}"
            )
            last[message.producer] = message

    def _check_epochs(self) -> None:
        highest, holder = -1, ""
        for position in sorted(self.stored):
            message = self.messages[self.stored[position]]
            assert message.epoch >= highest, (
                f"{message} at {position} was written after {holder} had epoch {highest}"
            )
            if message.epoch == highest >= 0:
                assert message.producer == holder, f"{message} and {holder} share an epoch"
            highest, holder = message.epoch, message.producer


__all__ = ["Message", "TopicHistory"]
