"""What a layout must satisfy, and what exactly is wrong with one that does not.

Both doors use this: a layout we compute asserts that it has no flaw, a layout that crossed a
boundary is refused with the flaw as the reason. A link to a segment that is not in the layout is no
flaw, since the segment may have been pruned; a link that only one side knows is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from anabranch.topics.key_range import KEY_SPACE, LAST_VALUE, tiles
from anabranch.topics.segment import Segment


def find_flaw(epoch: int, next_segment_id: int, segments: Sequence[Segment]) -> str | None:
    """The first flaw, in words; None if these may form a layout."""
    return next(_flaws(epoch, next_segment_id, segments), None)


def _flaws(epoch: int, next_segment_id: int, segments: Sequence[Segment]) -> Iterator[str]:
    repeated = len(segments) - len({segment.id for segment in segments})
    if repeated:
        yield f"{repeated} segment ids appear twice"
    for segment in segments:
        yield from _id_flaws(segment, next_segment_id)
        yield from _time_flaws(segment, epoch)
        yield from _bucket_flaws(segment)
    yield from _link_flaws(segments)
    yield from _tiling_flaws([segment for segment in segments if segment.is_active])


def _id_flaws(segment: Segment, next_segment_id: int) -> Iterator[str]:
    known = (segment.id, *segment.parents, *segment.children)
    if not all(0 <= each < next_segment_id for each in known):
        yield f"segment {segment} names ids outside 0 to {next_segment_id - 1}: {list(known)}"
    if len(set(known)) < len(known):
        yield f"segment {segment} names an id twice: {list(known)}"


def _time_flaws(segment: Segment, epoch: int) -> Iterator[str]:
    if not 0 <= segment.created_at_epoch <= epoch:
        yield f"segment {segment} was created at epoch {segment.created_at_epoch} of {epoch}"
    if segment.is_sealed and not segment.created_at_epoch <= segment.sealed_at_epoch <= epoch:
        yield (
            f"segment {segment} was created at epoch {segment.created_at_epoch} "
            f"and sealed at {segment.sealed_at_epoch} of {epoch}"
        )
    if segment.is_active and (segment.sealed_at_epoch or segment.sealed_at_ms):
        yield f"segment {segment} has a time of sealing"


def _bucket_flaws(segment: Segment) -> Iterator[str]:
    splits = segment.entry_bucket_splits
    rising = all(left < right for left, right in pairwise((0, *splits)))
    if splits and (not rising or splits[-1] > LAST_VALUE):
        yield f"segment {segment} has bucket splits that do not rise: {list(splits)}"


def _link_flaws(segments: Sequence[Segment]) -> Iterator[str]:
    by_id = {segment.id: segment for segment in segments}
    # Sets, because a migrated topic has as many links as the square of its partitions.
    parents = {segment.id: frozenset(segment.parents) for segment in segments}
    children = {segment.id: frozenset(segment.children) for segment in segments}
    for segment in segments:
        if segment.is_active and segment.children:
            yield f"segment {segment} has children {list(segment.children)}"
        for child in segment.children:
            if child in by_id and segment.id not in parents[child]:
                yield f"segment {by_id[child]} does not name its parent {segment.id}"
        for parent in segment.parents:
            if parent in by_id and segment.id not in children[parent]:
                yield f"segment {by_id[parent]} does not name its child {segment.id}"
            elif parent in by_id:
                yield from _descent_flaws(segment, by_id[parent])


def _descent_flaws(segment: Segment, parent: Segment) -> Iterator[str]:
    # Ids only grow, so parents below children is all that "acyclic" takes.
    if parent.id >= segment.id:
        yield f"segment {segment} is older than its parent {parent.id}"
    if not parent.keys.overlaps(segment.keys):
        yield f"segment {segment} shares no key with its parent {parent}"


def _tiling_flaws(active: Sequence[Segment]) -> Iterator[str]:
    """Ranges of a layout that is all legacy are for show: it routes by the number of partitions."""
    if all(segment.is_legacy for segment in active):
        if not active:
            yield "there is no active segment"
    elif not tiles(KEY_SPACE, [segment.keys for segment in active]):
        ranges = " ".join(sorted(str(segment.keys) for segment in active))
        yield f"active ranges {ranges} do not tile {KEY_SPACE}"
