"""What one subscription has acknowledged: pure, no clock, no disk.

- `mark_delete`: everything up to and including it is acknowledged.
- runs of entries behind it that were acknowledged out of order, by ledger;
- for batches acknowledged in part, the bit set of what is left: bit i set = message i is still
  unacknowledged, as on the wire. Sets are ANDed; when none is left the entry is acknowledged.

The runs lie above the mark and name entries that exist, always; as soon as the entry behind the
mark is acknowledged the mark moves on, over the ends of ledgers and over trimmed ones. What the
ledgers hold is an argument (`Spans`). Acknowledging twice is acknowledging once.

An acknowledgement is a promise, so nothing is ever dropped to save room. A cursor full of holes
says so instead (`is_over_limit`): whoever delivers should stop reading ahead until they fill up.

A cursor remembers what changed since `take_change` was last called. Changes are values: applied
in order to an equal cursor they make it equal again. That is what the cursor log stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from anabranch.errors import InvalidInput
from anabranch.storage.interval_set import IntervalSet
from anabranch.storage.spans import LATEST, Spans
from anabranch.topics.positions import EARLIEST, Position

MAX_RUNS = 10_000  # runs and partial batches beyond which reading ahead should stop
MAX_FRESH = 20_000  # changes remembered one by one; beyond, the whole state is the change
MAX_BATCH_WORDS = 16_384  # a million messages: more than fits into the largest frame

Runs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class CursorChange:
    """`replaces`: forget all that went before; else merge, which is idempotent."""

    mark_delete: Position
    runs: Mapping[int, Runs] = field(default_factory=dict)  # ledger -> (first, last), rising
    batches: Mapping[Position, int] = field(default_factory=dict)  # what is left of each
    properties: Mapping[str, str] = field(default_factory=dict)  # only if it replaces
    replaces: bool = False


def parse_ack_set(words: Sequence[int]) -> int:
    """The wire's 64-bit words, least significant first, as one integer."""
    if len(words) > MAX_BATCH_WORDS:
        raise InvalidInput(f"ack set of {len(words)} words; at most {MAX_BATCH_WORDS} are taken")
    bits = 0
    for word in reversed(words):
        bits = bits << 64 | (word & 0xFFFF_FFFF_FFFF_FFFF)
    return bits


def encode_ack_set(bits: int) -> list[int]:
    """Words as the wire has them, signed, without trailing zeros."""
    words = []
    while bits:
        word = bits & 0xFFFF_FFFF_FFFF_FFFF
        words.append(word - (1 << 64) if word >> 63 else word)
        bits >>= 64
    return words


class Cursor:
    __slots__ = ("_batches", "_fresh", "_is_changed", "_is_replaced", "_runs", "mark_delete",
                 "properties")  # fmt: skip

    def __init__(self, mark_delete: Position, properties: Mapping[str, str] | None = None) -> None:
        self.mark_delete = mark_delete
        self.properties: Mapping[str, str] = dict(properties or {})
        self._runs: dict[int, IntervalSet] = {}
        self._batches: dict[Position, int] = {}
        self._fresh: list[Position] = []  # acknowledged, in whole or in part, since take_change
        self._is_changed = True
        self._is_replaced = True

    @classmethod
    def starting_at(
        cls, position: Position, spans: Spans, properties: Mapping[str, str] | None = None
    ) -> Cursor:
        """A cursor whose first unacknowledged entry is `position`, or the first one behind it."""
        return cls(mark_before(position, spans), properties)

    def __repr__(self) -> str:
        holes = f", {self.run_count} runs" if self._runs else ""
        partial = f", {len(self._batches)} partial batches" if self._batches else ""
        return f"Cursor(through {self.mark_delete}{holes}{partial})"

    # Asking

    @property
    def run_count(self) -> int:
        return sum(map(len, self._runs.values()))

    @property
    def has_holes(self) -> bool:
        return bool(self._runs or self._batches)

    @property
    def has_partial_batches(self) -> bool:
        return bool(self._batches)

    @property
    def is_over_limit(self) -> bool:
        return self.run_count + len(self._batches) > MAX_RUNS

    @property
    def is_changed(self) -> bool:
        return self._is_changed

    def is_acked(self, position: Position) -> bool:
        if position <= self.mark_delete:
            return True
        runs = self._runs.get(position.ledger)
        return runs is not None and position.entry in runs

    def unacked_bits(self, position: Position) -> int | None:
        """What is left of a batch that was acknowledged in part, else None."""
        return self._batches.get(position)

    def next_unacked(self, position: Position, spans: Spans) -> Position | None:
        """The first entry from `position` on that is not acknowledged whole."""
        found = spans.first_from(max(position, self.mark_delete.next()))
        while found is not None:
            runs = self._runs.get(found.ledger)
            absent = found.entry if runs is None else runs.next_absent(found.entry)
            if absent == found.entry:
                return found
            found = spans.first_from(Position(found.ledger, absent))
        return None

    def backlog(self, spans: Spans) -> int:
        """Entries not acknowledged whole."""
        left = spans.total - spans.ordinal(self.mark_delete)
        for ledger, runs in self._runs.items():
            # Those of a trimmed ledger are not there any more, acknowledged or not.
            left -= runs.size if ledger >= spans.ledgers[0] else 0
        return left

    # Acknowledging

    def acknowledge(self, positions: Iterable[Position], spans: Spans) -> int:
        """Whole entries, in any order; how many were new.

        Positions that name no entry are passed over: a late acknowledgement of something
        trimmed is no mistake, and the others of its list must still count.
        """
        added = 0
        ledger, entries = -1, 0
        for position in positions:
            if position[0] != ledger:
                ledger = position[0]
                entries = spans.entries_of(ledger)
            if 0 <= position[1] < entries and position > self.mark_delete:
                added += self._acknowledge_one(position)
        if added and self._runs:
            self._absorb(spans)
        return added

    def _acknowledge_one(self, position: Position) -> int:
        ledger, entry = position
        self._batches.pop(position, None)
        runs = self._runs.get(ledger)
        if runs is None:
            if ledger == self.mark_delete.ledger and entry == self.mark_delete.entry + 1:
                # In order, the common case: no run is made, only to be absorbed at once.
                self.mark_delete = position
                self._is_changed = True
                return 1
            runs = self._runs[ledger] = IntervalSet()
        added = runs.add(entry, entry)
        if added:
            self._note(position)
        return added

    def acknowledge_batch(self, position: Position, unacked: int, spans: Spans) -> bool:
        """Part of a batch; true if that completes it. `unacked` is what the client has left."""
        if self.is_acked(position) or not spans.has(position):
            return False
        known = self._batches.get(position)
        left = unacked if known is None else known & unacked
        if left == 0:
            return self.acknowledge((position,), spans) > 0
        if left != known:
            self._batches[position] = left
            self._note(position)
        return False

    def acknowledge_cumulative(
        self, position: Position, spans: Spans, unacked: int | None = None
    ) -> bool:
        """Everything up to `position`; with `unacked`, of `position` itself only the rest.

        True if that was news. A position behind the last entry was never delivered: refused,
        for it could only be a mistake, and one that would swallow the whole backlog.
        """
        if not unacked and spans.has(position):
            return self._advance(position, spans)
        if position > spans.last:
            raise InvalidInput(f"cumulative ack of {position}, behind the last entry {spans.last}")
        if not unacked:
            return self._advance(spans.preceding(position.next()), spans)
        moved = self._advance(spans.preceding(position), spans)
        before = self._batches.get(position)
        self.acknowledge_batch(position, unacked, spans)
        return moved or self._batches.get(position) != before

    def _advance(self, position: Position, spans: Spans) -> bool:
        if position <= self.mark_delete:
            return False
        self._move_mark(position)
        if self._batches:
            self._drop_completed_batches()
        if self._runs:
            self._absorb(spans)
        return True

    def reset(self, position: Position, spans: Spans) -> None:
        """Seek: everything from `position` on counts as unacknowledged, everything before not."""
        self.mark_delete = mark_before(position, spans)
        self._runs.clear()
        self._batches.clear()
        self._replace()

    def set_properties(self, properties: Mapping[str, str]) -> None:
        self.properties = dict(properties)
        self._replace()

    # Remembering

    def state(self) -> CursorChange:
        """All of it, as a change that replaces whatever was there."""
        runs = {ledger: tuple(runs) for ledger, runs in sorted(self._runs.items())}
        return CursorChange(
            self.mark_delete, runs, dict(self._batches), self.properties, replaces=True
        )

    def take_change(self) -> CursorChange | None:
        """What changed since the last call, None if nothing did."""
        if not self._is_changed:
            return None
        change = self.state() if self._is_replaced else self._fresh_change()
        self._fresh.clear()
        self._is_changed = self._is_replaced = False
        return change

    def apply(self, change: CursorChange) -> None:
        """Replay. What is applied does not count as changed."""
        if change.replaces:
            self.mark_delete = change.mark_delete
            self.properties = change.properties
            self._runs.clear()
            self._batches.clear()
        elif change.mark_delete > self.mark_delete:
            self._move_mark(change.mark_delete)
        for ledger, added in change.runs.items():
            self._apply_runs(ledger, added)
        for position, left in change.batches.items():
            self._batches[position] = self._batches.get(position, left) & left
        self._drop_completed_batches()
        self._fresh.clear()
        self._is_changed = self._is_replaced = False

    def _apply_runs(self, ledger: int, added: Runs) -> None:
        floor = self.mark_delete.entry + 1 if ledger == self.mark_delete.ledger else 0
        if ledger < self.mark_delete.ledger:
            return
        for first, last in added:
            if last >= floor:
                self._runs.setdefault(ledger, IntervalSet()).add(max(first, floor), last)

    def _fresh_change(self) -> CursorChange:
        runs: dict[int, IntervalSet] = {}
        batches: dict[Position, int] = {}
        for position in self._fresh:
            if position > self.mark_delete:
                left = self._batches.get(position)
                if left is None:
                    runs.setdefault(position.ledger, IntervalSet()).add(
                        position.entry, position.entry
                    )
                else:
                    batches[position] = left
        taken = {ledger: tuple(runs[ledger]) for ledger in sorted(runs)}
        return CursorChange(self.mark_delete, taken, batches)

    def _note(self, position: Position) -> None:
        self._is_changed = True
        if self._is_replaced:
            return
        if len(self._fresh) < MAX_FRESH:
            self._fresh.append(position)
        else:
            self._replace()

    def _replace(self) -> None:
        self._fresh.clear()
        self._is_changed = self._is_replaced = True

    def _absorb(self, spans: Spans) -> None:
        while self._runs:
            ledger, entry = self.mark_delete
            found: Position | None = Position(ledger, entry + 1)
            if entry + 1 >= spans.entries_of(ledger):
                found = spans.following(self.mark_delete)
            runs = None if found is None else self._runs.get(found.ledger)
            if found is None or runs is None or runs.first != found.entry:
                return
            self._move_mark(Position(found.ledger, runs.next_absent(found.entry) - 1))

    def _move_mark(self, position: Position) -> None:
        """Up to `position`, forgetting what lies below it now."""
        self.mark_delete = position
        self._is_changed = True
        if not self._runs:
            return
        for ledger in [ledger for ledger in self._runs if ledger <= position.ledger]:
            if ledger == position.ledger:
                self._runs[ledger].discard_through(position.entry)
            if ledger < position.ledger or not self._runs[ledger]:
                del self._runs[ledger]

    def _drop_completed_batches(self) -> None:
        for position in [position for position in self._batches if self.is_acked(position)]:
            del self._batches[position]


def mark_before(position: Position, spans: Spans) -> Position:
    """The mark of a cursor that has everything before `position` behind it."""
    if position == EARLIEST:
        return spans.start
    if position == LATEST:
        return spans.last
    return spans.preceding(position)
