"""Who may produce to a topic: names, access modes, and the epoch that fences former holders.

    mode                   empty topic    shared producers   exclusive holder   only waiters
    SHARED                 joins          joins              busy               busy
    EXCLUSIVE              holds          fenced             fenced             fenced
    WAIT_FOR_EXCLUSIVE     holds          waits              waits              waits
    EXCLUSIVE_WITH_FENCING holds, whoever is there: producers are closed, waiters fenced

Each new holder raises the topic's epoch. A producer that comes back says under which epoch it held
the topic: an older one than the topic's was fenced meanwhile, the same one holds on without raising
it. The epoch must be saved before a holder is told (`Accepted.is_epoch_new`), or a restart could
hand out the same one twice.

A name is used by one producer at a time. The same connection and id with a higher epoch is the
same producer, later: it replaces itself silently. Anything else that wants the name of another is
`Contested`: the caller finds out whether that one's connection lives, and either refuses with
`busy_name`, or removes the dead one and asks again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, IntEnum

# Waiting costs the broker memory and the client nothing: it needs an end.
MAX_WAITERS = 1_000


class AccessMode(IntEnum):
    """The numbers of the wire."""

    SHARED = 0
    EXCLUSIVE = 1
    WAIT_FOR_EXCLUSIVE = 2
    EXCLUSIVE_WITH_FENCING = 3


class Refusal(Enum):
    BUSY = "ProducerBusy"
    FENCED = "ProducerFenced"


@dataclass(frozen=True, slots=True)
class Producer:
    connection: int
    id: int  # unique on its connection
    name: str
    mode: AccessMode = AccessMode.SHARED
    epoch: int = 0  # counts the attempts of one client-side producer
    topic_epoch: int | None = None  # under which it held the topic, or holds it now

    @property
    def key(self) -> tuple[int, int]:
        return self.connection, self.id


@dataclass(frozen=True, slots=True)
class Accepted:
    producer: Producer  # with the topic epoch it got, if its mode is exclusive
    is_epoch_new: bool = False  # save it before anybody hears of it
    closed: tuple[Producer, ...] = ()  # to be sent CLOSE_PRODUCER
    fenced: tuple[Producer, ...] = ()  # waiters, to be refused with FENCED


@dataclass(frozen=True, slots=True)
class Waiting:
    producer: Producer


@dataclass(frozen=True, slots=True)
class Contested:
    """Another producer has the name. Does it still live?"""

    holder: Producer


@dataclass(frozen=True, slots=True)
class Refused:
    kind: Refusal
    message: str


@dataclass(frozen=True, slots=True)
class Removed:
    """What became of the waiters when somebody left."""

    promoted: Accepted | None = None
    refused: tuple[tuple[Producer, Refused], ...] = ()


Decision = Accepted | Waiting | Contested | Refused
NOBODY = Removed()


def busy_name(topic: str, holder: Producer) -> Refused:
    return Refused(
        Refusal.BUSY, f"producer {holder.name!r} is already connected to {topic}; pick another name"
    )


class ProducerRoster:
    """The producers of one topic. `topic_epoch` is None until somebody held the topic."""

    def __init__(
        self, topic: str, *, topic_epoch: int | None = None, max_producers: int = 0
    ) -> None:
        self.topic = topic
        self.topic_epoch = topic_epoch
        self.max_producers = max_producers  # 0: no limit
        self._present: dict[tuple[int, int], Producer] = {}
        self._waiting: dict[tuple[int, int], Producer] = {}  # in order of arrival
        self._names: dict[str, tuple[int, int]] = {}  # of both

    @property
    def producers(self) -> tuple[Producer, ...]:
        return tuple(self._present.values())

    @property
    def waiters(self) -> tuple[Producer, ...]:
        return tuple(self._waiting.values())

    @property
    def holder(self) -> Producer | None:
        """Who has the topic for itself. Then it is the only one present."""
        for producer in self._present.values():
            return None if producer.mode is AccessMode.SHARED else producer
        return None

    def admit(self, producer: Producer) -> Decision:
        predecessor = self._present.get(producer.key) or self._waiting.get(producer.key)
        if predecessor is None:
            # Fencing asks nobody: whoever has the name is closed with all the others.
            is_fencing = producer.mode is AccessMode.EXCLUSIVE_WITH_FENCING
            contested = None if is_fencing else self._contested(producer)
            return contested or self._admit(producer)
        if producer.epoch <= predecessor.epoch:
            # Asked twice: the same answer twice.
            waits = producer.key in self._waiting
            return Waiting(predecessor) if waits else Accepted(predecessor)
        return self._contested(producer) or self._succeed(predecessor, producer)

    def remove(self, connection: int, producer_id: int) -> Removed:
        """Gone, or never there. A waiter may have the topic now."""
        key = connection, producer_id
        gone = self._present.pop(key, None) or self._waiting.pop(key, None)
        if gone is None:
            return NOBODY
        del self._names[gone.name]
        return NOBODY if self._present else self._promote()

    def clear(self) -> tuple[Producer, ...]:
        """All of them, to be closed: the topic is unloaded or sealed."""
        everybody = self.producers + self.waiters
        self._present.clear()
        self._waiting.clear()
        self._names.clear()
        return everybody

    def _contested(self, producer: Producer) -> Contested | None:
        key = self._names.get(producer.name)
        if key is None or key == producer.key:
            return None
        return Contested(self._present.get(key) or self._waiting[key])

    def _succeed(self, predecessor: Producer, producer: Producer) -> Decision:
        """The later attempt takes the place of the earlier one, in front of all who wait."""
        if producer.mode is not predecessor.mode:
            return Refused(
                Refusal.BUSY,
                f"producer {producer.name!r} of {self.topic} came back as {producer.mode.name} "
                f"but is {predecessor.mode.name}; close it first",
            )
        outdated = self._outdated(producer)
        if outdated is not None and producer.mode is not AccessMode.SHARED:
            return outdated
        del self._names[predecessor.name]
        self._names[producer.name] = producer.key
        if producer.key in self._waiting:
            self._waiting[producer.key] = producer
            return Waiting(producer)
        if producer.mode is AccessMode.SHARED:
            self._present[producer.key] = producer
            return Accepted(producer)
        del self._present[predecessor.key]
        return self._hold(producer, self._epoch_for(producer))

    def _admit(self, producer: Producer) -> Decision:
        match producer.mode:
            case AccessMode.SHARED:
                return self._admit_shared(producer)
            case AccessMode.EXCLUSIVE:
                return self._admit_exclusive(producer)
            case AccessMode.WAIT_FOR_EXCLUSIVE:
                return self._admit_waiter(producer)
            case AccessMode.EXCLUSIVE_WITH_FENCING:
                return self._admit_fencing(producer)

    def _admit_shared(self, producer: Producer) -> Decision:
        if self.holder is not None or self._waiting:
            return Refused(Refusal.BUSY, self._taken())
        if self.max_producers and len(self._present) >= self.max_producers:
            return Refused(
                Refusal.BUSY,
                f"{self.topic} has {len(self._present)} producers; "
                f"its limit is {self.max_producers}",
            )
        self._present[producer.key] = producer
        self._names[producer.name] = producer.key
        return Accepted(producer)

    def _admit_exclusive(self, producer: Producer) -> Decision:
        if self._present or self._waiting:
            return Refused(Refusal.FENCED, self._taken())
        return self._outdated(producer) or self._hold(producer, self._epoch_for(producer))

    def _admit_waiter(self, producer: Producer) -> Decision:
        outdated = self._outdated(producer)
        if outdated is not None:
            return outdated
        if not self._present and not self._waiting:
            return self._hold(producer, self._epoch_for(producer))
        if len(self._waiting) >= MAX_WAITERS:
            return Refused(
                Refusal.BUSY, f"{len(self._waiting)} producers already wait for {self.topic}"
            )
        self._waiting[producer.key] = producer
        self._names[producer.name] = producer.key
        return Waiting(producer)

    def _admit_fencing(self, producer: Producer) -> Decision:
        outdated = self._outdated(producer)
        if outdated is not None:
            return outdated
        closed, fenced = self.producers, self.waiters
        self.clear()
        return replace(
            self._hold(producer, self._epoch_for(producer)), closed=closed, fenced=fenced
        )

    def _hold(self, producer: Producer, topic_epoch: int) -> Accepted:
        assert not self._present, self._present
        is_new = topic_epoch != self.topic_epoch
        self.topic_epoch = topic_epoch
        holder = replace(producer, topic_epoch=topic_epoch)
        self._present[holder.key] = holder
        self._names[holder.name] = holder.key
        return Accepted(holder, is_epoch_new=is_new)

    def _epoch_for(self, producer: Producer) -> int:
        if producer.topic_epoch is not None:
            return producer.topic_epoch
        return 0 if self.topic_epoch is None else self.topic_epoch + 1

    def _outdated(self, producer: Producer) -> Refused | None:
        known, claimed = self.topic_epoch, producer.topic_epoch
        if known is None or claimed is None or claimed >= known:
            return None
        return Refused(
            Refusal.FENCED,
            f"producer {producer.name!r} held {self.topic} at epoch {claimed}; "
            f"it is now at epoch {known}",
        )

    def _promote(self) -> Removed:
        refused: list[tuple[Producer, Refused]] = []
        while self._waiting:
            waiter = self._waiting.pop(next(iter(self._waiting)))
            del self._names[waiter.name]
            # It may have waited through a whole reign, and its claim grown old.
            outdated = self._outdated(waiter)
            if outdated is None:
                return Removed(self._hold(waiter, self._epoch_for(waiter)), tuple(refused))
            refused.append((waiter, outdated))
        return Removed(None, tuple(refused))

    def _taken(self) -> str:
        holder = self.holder
        if holder is not None:
            return f"{self.topic} is held by producer {holder.name!r} alone"
        if self._present:
            return f"{self.topic} has {len(self._present)} shared producers"
        return f"{len(self._waiting)} producers wait to have {self.topic} alone"
