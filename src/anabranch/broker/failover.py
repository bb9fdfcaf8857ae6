"""Which consumer of an Exclusive or Failover subscription is active, and who must be told.

Only the consumers of the best priority (the lowest number) can be. Sorted by name, the partition
index picks among them, so that the partitions of a topic spread over consumers that all subscribe
to all of them. A topic without partitions has nothing to pick by: it takes the owner of its own
name on a ring of consumers, so that many such topics spread too, and a consumer that comes or goes
moves few of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from anabranch.broker.key_shared import AutoSplit
from anabranch.broker.sticky_key import sticky_hash

NOT_PARTITIONED = -1


class Candidate(NamedTuple):
    priority: int
    name: str
    consumer: int


class Notice(NamedTuple):
    """An ACTIVE_CONSUMER_CHANGE."""

    consumer: int
    is_active: bool


class Election(NamedTuple):
    active: int | None
    notices: list[Notice]


def choose_active(
    candidates: Iterable[Candidate], topic: str, partition: int = NOT_PARTITIONED
) -> int | None:
    ordered = sorted(candidates)
    if not ordered:
        return None
    best = [each for each in ordered if each.priority == ordered[0].priority]
    if len(best) == 1:
        return best[0].consumer
    if partition >= 0:
        return best[partition % len(best)].consumer
    ring = AutoSplit()
    for each in best:
        ring.join(each.consumer, each.name)
    return ring.owner_of(sticky_hash(topic.encode()))


def elect(
    candidates: Sequence[Candidate],
    topic: str,
    partition: int = NOT_PARTITIONED,
    *,
    active: int | None,
    joined: int | None = None,
) -> Election:
    """After a join or leave. `active` was so before, `joined` is new and has not been told yet.

    A change is told to all, or the one who lost would go on; no change, only to who joined.
    """
    chosen = choose_active(candidates, topic, partition)
    told = [each.consumer for each in candidates if chosen != active or each.consumer == joined]
    return Election(chosen, [Notice(consumer, consumer == chosen) for consumer in told])
