"""What was done to a managed ledger, and what every later owner must therefore find.

Entries: an answered submission is at its position for ever, until trimmed; whatever is there was
submitted once, and each producer's entries are in its order. Cursors: an acknowledgement with a
receipt is there, one that nobody made is not, one without a receipt may be either. What an owner
found while loading is durable from then on. Trimmed is only what every cursor has acknowledged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from crc32c import crc32c

from anabranch.storage.ledger import Draft, Entry
from anabranch.storage.managed_cursors import ManagedCursor
from anabranch.storage.managed_ledger import ManagedLedger
from anabranch.topics.positions import EARLIEST, Position

WHOLE_BATCH = 0b1111_1111  # every entry here is a batch of eight


@dataclass
class CursorHistory:
    name: str
    sure: set[Position] = field(default_factory=set)  # acknowledged, with a receipt
    asked: set[Position] = field(default_factory=set)  # acknowledged at all
    # Acknowledged at some time, perhaps before a seek went back: a trim under way then may win.
    ever: set[Position] = field(default_factory=set)
    recent: set[Position] = field(default_factory=set)  # the same, since somebody emptied it
    # Of batches acknowledged in part: the messages left (a bit each), by receipt, and at all.
    sure_left: dict[Position, int] = field(default_factory=dict)
    asked_left: dict[Position, int] = field(default_factory=dict)
    seek: Position | None = None  # asked for, and not answered yet
    is_created: bool = False
    delete_asked: bool = False

    def check(self, cursor: ManagedCursor, there: Collection[Position]) -> None:
        acked = {position for position in there if cursor.is_acked(position)}
        if self.seek is not None and acked == {p for p in there if p < self.seek}:
            pass  # the seek went through, though nobody was told
        else:
            forgotten = sorted(self.sure & set(there) - acked)
            assert not forgotten, f"cursor {self.name} forgot {forgotten}"
            invented = sorted(acked - self.asked)
            assert not invented, f"cursor {self.name} acknowledged {invented} by itself"
            self._check_batches(cursor, set(there) - acked)
        self.sure_left = {
            position: left
            for position in there
            if (left := cursor.unacked_bits(position)) is not None
        }
        self.asked_left = dict(self.sure_left)
        self.seek = None
        self.sure, self.asked = set(acked), set(acked)
        self.ever |= acked

    def _check_batches(self, cursor: ManagedCursor, there: Collection[Position]) -> None:
        for position in there:
            bits = cursor.unacked_bits(position)
            left = WHOLE_BATCH if bits is None else bits
            forgotten = left & ~self.sure_left.get(position, WHOLE_BATCH)
            assert not forgotten, f"cursor {self.name} forgot {forgotten:b} of {position}"
            invented = self.asked_left.get(position, WHOLE_BATCH) & ~left
            assert not invented, f"cursor {self.name} acknowledged {invented:b} of {position}"

    def ask_part(self, position: Position, left: int) -> None:
        self.asked_left[position] = left & self.asked_left.get(position, WHOLE_BATCH)
        if not self.asked_left[position]:
            self.ask([position])

    def receive(self, acked: Iterable[Position], left: Mapping[Position, int]) -> None:
        """A receipt, for what had been asked when it was requested."""
        self.sure.update(acked)
        for position, bits in left.items():
            self.sure_left[position] = bits & self.sure_left.get(position, WHOLE_BATCH)

    def ask(self, positions: Iterable[Position]) -> None:
        self.asked.update(positions)
        self.ever |= self.asked
        self.recent |= self.asked

    def finish_seek(self, position: Position, there: Collection[Position]) -> None:
        self.seek = None
        self.sure = {each for each in there if each < position}
        self.asked = set(self.sure)
        self.ever |= self.asked
        self.recent |= self.asked
        self.sure_left.clear()
        self.asked_left.clear()


@dataclass
class ManagedHistory:
    name: str
    sure: dict[Position, bytes] = field(default_factory=dict)
    submitted: dict[bytes, tuple[str, int]] = field(default_factory=dict)  # who sent it, its place
    cursors: dict[str, CursorHistory] = field(default_factory=dict)
    sealed_at: Position | None = None

    def make_draft(self, producer: str, padding: bytes) -> Draft:
        number = len(self.submitted)
        body = b"%s %d %s" % (producer.encode(), number, padding)
        self.submitted[body] = (producer, number)
        return Draft(body, crc32c(body), time_ms=1000 + number)

    def answered(self, position: Position, body: bytes) -> None:
        known = self.sure.setdefault(position, body)
        assert known == body, f"{self.name}: {position} is {known!r}, then {body!r}"

    def cursors_there(self) -> list[CursorHistory]:
        return [each for each in self.cursors.values() if each.is_created and not each.delete_asked]

    async def check_loaded(
        self, managed: ManagedLedger, expected: Mapping[Position, bytes] | None = None
    ) -> None:
        """`expected`: what was sure when the load began, if others may go on meanwhile."""
        expected = dict(self.sure if expected is None else expected)
        entries = await read_everything(managed)
        self.check_entries(entries)
        found = {Position(entry.ledger, entry.entry) for entry in entries}
        self._check_missing(sorted(expected.keys() - found), managed)
        if self.sealed_at is not None:
            assert managed.is_sealed
            behind = [position for position in sorted(found) if position > self.sealed_at]
            assert not behind, f"{self.name}: sealed at {self.sealed_at}, but there is {behind}"

    def check_entries(self, entries: list[Entry]) -> None:
        last: dict[str, int] = {}
        for entry in entries:
            position, body = Position(entry.ledger, entry.entry), bytes(entry.body)
            assert body in self.submitted, f"{self.name}: invented {body!r} at {position}"
            producer, number = self.submitted[body]
            assert number > last.get(producer, -1), f"{self.name}: {body!r} out of order or twice"
            last[producer] = number
            self.answered(position, body)
        positions = [Position(entry.ledger, entry.entry) for entry in entries]
        assert positions == sorted(set(positions))

    def check_cursors(self, managed: ManagedLedger) -> None:
        names = set(managed.cursors.names)
        for cursor in list(self.cursors.values()):
            if cursor.name in names:
                handle = managed.cursors.get(cursor.name)
                assert handle is not None
                cursor.check(handle, self.sure)
                # Whatever was under way for it when its owner died has not happened.
                cursor.is_created, cursor.delete_asked = True, False
            else:
                assert cursor.delete_asked or not cursor.is_created, f"no cursor {cursor.name}"
                del self.cursors[cursor.name]
        assert names <= self.cursors.keys(), f"invented cursors: {names - self.cursors.keys()}"

    def _check_missing(self, missing: list[Position], managed: ManagedLedger) -> None:
        trimmed_to = managed.record.trimmed_to
        for position in missing:
            assert position <= trimmed_to, f"{self.name}: lost {position}, {self.sure[position]!r}"
            for cursor in self.cursors_there():
                assert position in cursor.ever or cursor.seek is not None, (
                    f"{self.name}: {position} was trimmed before {cursor.name} had it"
                )
            self.sure.pop(position, None)


async def read_everything(managed: ManagedLedger) -> list[Entry]:
    entries: list[Entry] = []
    position = EARLIEST
    while more := await managed.read(position, max_entries=7, max_bytes=3000):
        entries += more
        position = Position(more[-1].ledger, more[-1].entry + 1)
    return entries
