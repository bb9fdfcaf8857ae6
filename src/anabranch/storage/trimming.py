"""What may go: retention, time to live and backlog quota, decided from data alone.

Minus one means "no limit", as in Pulsar's policies. Retention speaks of entries that every
durable cursor has behind it: with both numbers 0 they go at once; else a ledger goes when it is
older than the one *or* what is kept is larger than the other. Only whole, closed ledgers go, and
only the oldest: entries that exist are always one unbroken stretch.

Time to live and the quota speak of entries that are *not* acknowledged. Neither removes anything:
they move cursors forward, and trimming follows. An entry leaves by one door only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from anabranch.errors import InvalidInput
from anabranch.storage.spans import Spans
from anabranch.topics.positions import Position

UNLIMITED = -1
# Evicting exactly to the limit would evict again at the next message.
EVICTION_TARGET = 0.9


class BacklogAction(Enum):
    """What happens when a backlog is over its quota; the values are Pulsar's."""

    HOLD_PRODUCERS = "producer_request_hold"
    FAIL_PRODUCERS = "producer_exception"
    EVICT = "consumer_backlog_eviction"


@dataclass(frozen=True, slots=True)
class LedgerPolicy:
    retention_minutes: int = 0
    retention_bytes: int = 0
    ttl_seconds: int = UNLIMITED
    max_backlog_bytes: int = UNLIMITED
    max_backlog_seconds: int = UNLIMITED
    backlog_action: BacklogAction = BacklogAction.HOLD_PRODUCERS

    def __post_init__(self) -> None:
        numbers = (
            self.retention_minutes,
            self.retention_bytes,
            self.ttl_seconds,
            self.max_backlog_bytes,
            self.max_backlog_seconds,
        )
        if min(numbers) < UNLIMITED:
            raise InvalidInput(f"{self}: use -1 for no limit, nothing below")


class LedgerInfo(NamedTuple):
    """A ledger as its managed ledger's record lists it."""

    ledger: int
    entries: int = 0
    size_bytes: int = 0
    closed_at_ms: int = 0  # 0: not closed, or not known to be

    @property
    def is_open(self) -> bool:
        return self.closed_at_ms == 0

    @property
    def last(self) -> Position:
        return Position(self.ledger, self.entries - 1)


def decide_trim(
    ledgers: Sequence[LedgerInfo], policy: LedgerPolicy, floor: Position | None, now_ms: int
) -> list[int]:
    """Ids of the ledgers that go, oldest first.

    `floor` is the smallest persisted mark of all durable cursors, None if there are none: with
    nobody left to wait for, retention alone decides. `ledgers` includes the open one.
    """
    going: list[int] = []
    kept_bytes = sum(info.size_bytes for info in ledgers)
    for info in ledgers:
        if info.is_open or (floor is not None and info.last > floor):
            break
        if not _has_outlived(policy, info, kept_bytes, now_ms):
            break
        going.append(info.ledger)
        kept_bytes -= info.size_bytes
    return going


def _has_outlived(policy: LedgerPolicy, info: LedgerInfo, kept_bytes: int, now_ms: int) -> bool:
    if info.entries == 0:
        return True
    age_limit_ms = policy.retention_minutes * 60_000
    if policy.retention_minutes >= 0 and now_ms - info.closed_at_ms >= age_limit_ms:
        return True
    return policy.retention_bytes >= 0 and kept_bytes > policy.retention_bytes


def expiry_cutoff_ms(policy: LedgerPolicy, now_ms: int) -> int | None:
    """Entries older than this have outlived their time to live. 0 seconds means no limit too."""
    return now_ms - policy.ttl_seconds * 1000 if policy.ttl_seconds > 0 else None


def decide_expiry(mark_delete: Position, first_live: Position | None, spans: Spans) -> Position:
    """The mark of a cursor once everything before `first_live` has expired; it never goes back.

    `first_live` is the first entry young enough, None if there is none.
    """
    expired = spans.last if first_live is None else spans.preceding(first_live)
    return max(mark_delete, expired)


class OverQuota(NamedTuple):
    """`evict_through` is set if the policy wants the oldest entries skipped, and says to where."""

    action: BacklogAction
    reason: str
    evict_through: Position | None = None


def backlog_bytes(ledgers: Sequence[LedgerInfo], mark_delete: Position) -> int:
    """Bytes behind the mark. Within a ledger entries count as equally large."""
    total = 0
    for info in ledgers:
        acked = info.entries if info.ledger < mark_delete.ledger else 0
        if info.ledger == mark_delete.ledger:
            acked = min(info.entries, mark_delete.entry + 1)
        if info.entries:
            total += info.size_bytes * (info.entries - acked) // info.entries
    return total


def decide_backlog_size(
    ledgers: Sequence[LedgerInfo], policy: LedgerPolicy, mark_delete: Position
) -> OverQuota | None:
    """Is the backlog of a cursor too large? `ledgers` has the current size of the open one."""
    if policy.max_backlog_bytes == UNLIMITED:
        return None
    size = backlog_bytes(ledgers, mark_delete)
    if size <= policy.max_backlog_bytes:
        return None
    reason = f"backlog of {size} bytes is over the limit of {policy.max_backlog_bytes}"
    through = None
    if policy.backlog_action is BacklogAction.EVICT:
        target = int(policy.max_backlog_bytes * EVICTION_TARGET)
        through = _first_mark_within(ledgers, mark_delete, target)
    return OverQuota(policy.backlog_action, reason, through)


def _first_mark_within(
    ledgers: Sequence[LedgerInfo], mark_delete: Position, target: int
) -> Position:
    """The smallest mark that leaves at most `target` bytes."""
    excess = backlog_bytes(ledgers, mark_delete) - target
    mark = mark_delete
    for info in ledgers:
        if excess <= 0:
            break
        if info.last <= mark or not info.entries:
            continue
        first = mark.entry + 1 if mark.ledger == info.ledger else 0
        left = info.entries - first
        size = info.size_bytes * left // info.entries
        # Rounded up, and one more for the rounding down of the estimate itself.
        skipped = (
            left if size <= excess else min(left, excess * info.entries // info.size_bytes + 1)
        )
        mark = Position(info.ledger, first + skipped - 1)
        excess -= size if skipped == left else info.size_bytes * skipped // info.entries
    return mark


def backlog_cutoff_ms(policy: LedgerPolicy, now_ms: int) -> int | None:
    """A backlog whose oldest entry is older than this is over its quota."""
    if policy.max_backlog_seconds == UNLIMITED:
        return None
    return now_ms - policy.max_backlog_seconds * 1000


def decide_backlog_age(
    policy: LedgerPolicy, mark_delete: Position, first_young: Position | None, spans: Spans
) -> OverQuota | None:
    """Is the oldest unacknowledged entry too old? `first_young` is the first that is not."""
    through = decide_expiry(mark_delete, first_young, spans)
    if through == mark_delete:
        return None
    limit = policy.max_backlog_seconds
    reason = f"backlog from {mark_delete} to {through} is older than the limit of {limit} s"
    evict = policy.backlog_action is BacklogAction.EVICT
    return OverQuota(policy.backlog_action, reason, through if evict else None)
