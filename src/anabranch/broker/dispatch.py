"""Which consumer gets which of the entries just read. Deterministic, and nothing is changed here.

The entries are a batch, known by their message counts (what is left of a batch entry, never zero);
a plan names them by index. Every entry is in exactly one grant or in `rest`. An entry goes out
while its receiver has room for at least one message: see `receivers`.

Prefix sums of the counts make a whole turn one binary search, so what is paid per entry is one
addition. Only Key_Shared must look at each entry.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from anabranch.broker.receivers import Receiver

# Messages a consumer gets before the next one has its turn.
TURN_MESSAGES = 20
NO_BUDGET = 2**62  # larger than any sum of counts


class Grant(NamedTuple):
    consumer: int
    entries: Sequence[int]  # indexes, rising
    messages: int


class Plan(NamedTuple):
    grants: list[Grant]
    rest: Sequence[int]  # indexes, rising, of what nobody gets now


def plan_single(receiver: Receiver | None, counts: Sequence[int], budget: int = NO_BUDGET) -> Plan:
    """Exclusive, and the active consumer of Failover: a prefix, for order is everything."""
    room = 0 if receiver is None else min(receiver.room(), budget)
    if receiver is None or room <= 0 or not counts:
        return Plan([], range(len(counts)))
    sums = list(accumulate(counts, initial=0))
    end = bisect_left(sums, room, 1, len(counts))
    return Plan([Grant(receiver.consumer, range(end), sums[end])], range(end, len(counts)))


class Rotation:
    """Shared: turns go round the consumers of the best priority that has room, then the next.

    Keeps only who was served last at each priority, and what is left of a turn that a batch's end
    cut short, so that the next plan goes on from there.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int]] = {}  # priority -> consumer, messages left to it

    def plan(
        self,
        receivers: Iterable[Receiver],
        counts: Sequence[int],
        *,
        turn_messages: int = TURN_MESSAGES,
        budget: int = NO_BUDGET,
    ) -> Plan:
        levels = _levels(receivers)
        self._last = {level: last for level, last in self._last.items() if level in levels}
        sums = list(accumulate(counts, initial=0))
        # What the budget does not cover goes to nobody: sums below it mark where entries start.
        end = bisect_left(sums, budget, 0, len(counts))
        grants: list[Grant] = []
        at = 0
        for priority in sorted(levels):
            if at == end:
                break
            at = self._serve(priority, levels[priority], sums[: end + 1], at, turn_messages, grants)
        return Plan(grants, range(at, len(counts)))

    def _serve(
        self,
        priority: int,
        level: list[tuple[int, int]],
        sums: list[int],
        at: int,
        turn_messages: int,
        grants: list[Grant],
    ) -> int:
        """One priority, from entry `at` on; where it ended."""
        end = len(sums) - 1
        full_turn = _even_turn(sums[end] - sums[at], len(level), turn_messages)
        ring, turn = self._ring(priority, level)
        turn = turn or full_turn
        while at < end and ring:
            consumer, room = ring.popleft()
            until = bisect_left(sums, sums[at] + min(turn, room), at + 1, end)
            messages = sums[until] - sums[at]
            grants.append(Grant(consumer, range(at, until), messages))
            at = until
            if room > messages:
                ring.append((consumer, room - messages))
            self._last[priority] = consumer, max(0, turn - messages)
            turn = full_turn
        return at

    def _ring(
        self, priority: int, level: list[tuple[int, int]]
    ) -> tuple[deque[tuple[int, int]], int]:
        """(consumer, room), whoever is next in front; and what is left of its turn, 0 if all."""
        last, left = self._last.get(priority, (-1, 0))
        ring = deque(sorted(level))
        ring.rotate(
            -sum(consumer < last or (consumer == last and not left) for consumer, _ in ring)
        )
        return ring, left if ring[0][0] == last else 0


def _levels(receivers: Iterable[Receiver]) -> dict[int, list[tuple[int, int]]]:
    levels: dict[int, list[tuple[int, int]]] = {}
    for receiver in receivers:
        room = receiver.room()
        if room > 0:
            levels.setdefault(receiver.priority, []).append((receiver.consumer, room))
    return levels


def _even_turn(messages: int, consumers: int, turn_messages: int) -> int:
    """The largest turn within the limit that lets this batch end after a full round.

    Else, of two consumers and batches of thirty, one would always get twenty and the other ten.
    """
    rounds = -(-messages // (turn_messages * consumers))
    return max(1, -(-messages // (rounds * consumers)))


def plan_keyed(
    receivers: Iterable[Receiver],
    owner_of: Callable[[int], int | None],
    holders: Mapping[int, int],
    slots: Sequence[int],
    counts: Sequence[int],
    *,
    stuck: Collection[int] = (),
    budget: int = NO_BUDGET,
) -> Plan:
    """Key_Shared: an entry goes to the owner of its slot, or waits and makes its slot wait.

    A slot is what order is kept by: a sticky hash or an entry bucket. It waits if it is in
    `stuck` (earlier entries of it wait elsewhere), if nobody owns it, if another consumer than
    its owner still holds entries of it (`holders`), or if the owner has no room.
    """
    rooms = {receiver.consumer: receiver.room() for receiver in receivers}
    given: dict[int, list[int]] = {}
    rest: list[int] = []
    # What each slot comes to, found once: its owner, or None while it must wait.
    owners: dict[int, int | None] = dict.fromkeys(stuck)
    for index, slot in enumerate(slots):
        if slot in owners:
            owner = owners[slot]
        else:
            owner = owner_of(slot)
            if holders.get(slot, owner) != owner:
                owner = None
            owners[slot] = owner
        # Rooms only shrink: what finds none here makes all behind it of its slot find none too.
        if owner is None or budget <= 0 or rooms[owner] <= 0:
            rest.append(index)
        else:
            rooms[owner] -= counts[index]
            budget -= counts[index]
            if owner in given:
                given[owner].append(index)
            else:
                given[owner] = [index]
    grants = [
        Grant(owner, indexes, sum([counts[index] for index in indexes]))
        for owner, indexes in given.items()
    ]
    return Plan(grants, rest)
