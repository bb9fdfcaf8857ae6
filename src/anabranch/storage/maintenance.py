"""What has to be done to a managed ledger now and then: expire, hold to the quota, trim.

In that order, for each makes room for the next. trimming.py decides; here it is carried out. The
caller owns the timer, and acts on what concerns producers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from anabranch.storage.managed_cursors import ManagedCursor
from anabranch.storage.managed_ledger import ManagedLedger
from anabranch.storage.trimming import (
    OverQuota,
    backlog_cutoff_ms,
    decide_backlog_age,
    decide_backlog_size,
    decide_expiry,
    expiry_cutoff_ms,
)


class Upkeep(NamedTuple):
    expired: tuple[str, ...]  # cursors that were moved because entries outlived their time
    over_quota: Mapping[str, OverQuota]  # by cursor; evictions are done, the rest is the caller's
    trimmed: tuple[int, ...]  # ledgers


async def maintain(managed: ManagedLedger, now_ms: int) -> Upkeep:
    expired = await expire(managed, now_ms)
    over_quota = await hold_to_quota(managed, now_ms)
    if expired or over_quota:
        # Trimming goes by what is persisted.
        await managed.cursors.persist()
    return Upkeep(tuple(expired), over_quota, tuple(await managed.trim()))


async def expire(managed: ManagedLedger, now_ms: int) -> list[str]:
    """Acknowledge, for every durable cursor, what has outlived the policy's time to live."""
    cutoff = expiry_cutoff_ms(managed.policy, now_ms)
    cursors = managed.cursors.all()
    if cutoff is None or not cursors:
        return []
    start = min(cursor.mark_delete for cursor in cursors)
    first_live = await managed.find_by_time(cutoff, start)
    expired = []
    for cursor in cursors:
        mark = decide_expiry(cursor.mark_delete, first_live, managed.spans())
        if cursor.acknowledge_cumulative(mark):
            expired.append(cursor.name)
    return expired


async def hold_to_quota(managed: ManagedLedger, now_ms: int) -> dict[str, OverQuota]:
    """Cursors whose backlog is over the policy's limits; evicted, if that is the policy."""
    found = {}
    for cursor in managed.cursors.all():
        over = decide_backlog_size(managed.ledgers(), managed.policy, cursor.mark_delete)
        if over is None:
            over = await _over_age(managed, cursor, now_ms)
        if over is not None:
            found[cursor.name] = over
            if over.evict_through is not None:
                through = min(over.evict_through, managed.last_confirmed)
                cursor.acknowledge_cumulative(through)
    return found


async def _over_age(managed: ManagedLedger, cursor: ManagedCursor, now_ms: int) -> OverQuota | None:
    cutoff = backlog_cutoff_ms(managed.policy, now_ms)
    if cutoff is None:
        return None
    first_young = await managed.find_by_time(cutoff, cursor.mark_delete)
    return decide_backlog_age(managed.policy, cursor.mark_delete, first_young, managed.spans())
