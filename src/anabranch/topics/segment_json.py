"""A segment as JSON: in the topic's record, in a transition's plan, and after it was pruned.

    {"segmentId":1,"hashRange":{"start":0,"end":32767},"state":"ACTIVE","parentIds":[0],
     "childIds":[],"createdAtEpoch":1,"sealedAtEpoch":0,"createdAtMs":1700000100000,
     "sealedAtMs":0,"entryBucketSplits":[32768]}

`legacyTopicName` is there only if the segment has one. While a segment is active its two sealing
fields are 0; other writers put -1 there or leave them out, so `state` alone decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.errors import Corrupt, InvalidInput
from anabranch.topics.json_fields import Fields, Json, encode_json, parse_json, shown
from anabranch.topics.key_range import KeyRange
from anabranch.topics.positions import EARLIEST, Position
from anabranch.topics.segment import Segment, SegmentId, SegmentState

# Other writers add what follows from the state. Kept, it would be wrong after the next change.
DERIVED_FIELDS = frozenset({"active", "sealed", "legacy", "root", "leaf"})


def segment_to_json(segment: Segment) -> dict[str, Json]:
    made: dict[str, Json] = {
        "segmentId": segment.id,
        "hashRange": {"start": segment.keys.start, "end": segment.keys.end},
        "state": segment.state.value,
        "parentIds": list(segment.parents),
        "childIds": list(segment.children),
        "createdAtEpoch": segment.created_at_epoch,
        "sealedAtEpoch": segment.sealed_at_epoch,
        "createdAtMs": segment.created_at_ms,
        "sealedAtMs": segment.sealed_at_ms,
        "entryBucketSplits": list(segment.entry_bucket_splits),
    }
    if segment.legacy_topic is not None:
        made["legacyTopicName"] = segment.legacy_topic
    return made


def read_segment(source: Fields) -> Segment:
    """What is left in `source.rest()` afterwards are fields that this version does not know."""
    state = _read_state(source)
    sealed_at_epoch = source.integer("sealedAtEpoch", 0)
    sealed_at_ms = source.integer("sealedAtMs", 0)
    is_sealed = state is SegmentState.SEALED
    return Segment(
        id=SegmentId(source.integer("segmentId")),
        keys=_read_range(source.nested("hashRange")),
        state=state,
        parents=tuple(SegmentId(each) for each in source.integers("parentIds")),
        children=tuple(SegmentId(each) for each in source.integers("childIds")),
        created_at_epoch=source.integer("createdAtEpoch", 0),
        sealed_at_epoch=sealed_at_epoch if is_sealed else 0,
        created_at_ms=max(0, source.integer("createdAtMs", 0)),
        sealed_at_ms=max(0, sealed_at_ms) if is_sealed else 0,
        legacy_topic=source.optional_text("legacyTopicName"),
        entry_bucket_splits=source.integers("entryBucketSplits"),
    )


def unknown_fields(source: Fields) -> dict[str, Json]:
    """What to keep of a segment's other fields, after `read_segment`."""
    rest = source.rest().items()
    return {name: value for name, value in rest if name not in DERIVED_FIELDS}


@dataclass(frozen=True, slots=True)
class PrunedSegment:
    """What outlives a pruned segment's data, so that a reader can tell loss from the end."""

    # As it was just before, with the links it had then.
    segment: Segment
    # EARLIEST if it never held a message.
    last_message: Position

    def to_json(self) -> bytes:
        last: dict[str, Json] = {
            "ledgerId": self.last_message.ledger,
            "entryId": self.last_message.entry,
        }
        return encode_json(segment_to_json(self.segment) | {"lastMessageId": last})


def parse_pruned_segment(data: bytes) -> PrunedSegment:
    source = Fields(parse_json(data, "pruned segment"), "pruned segment")
    last = source.nested("lastMessageId")
    position = Position(last.integer("ledgerId"), last.integer("entryId"))
    if position < EARLIEST:
        raise Corrupt(f"pruned segment.lastMessageId: {position} is no position")
    segment = read_segment(source)
    if segment.is_active:
        raise Corrupt(f"pruned segment {segment} is said to be active")
    return PrunedSegment(segment, position)


def _read_state(source: Fields) -> SegmentState:
    text = source.text("state")
    try:
        return SegmentState(text)
    except ValueError:
        raise Corrupt(f"{source.path_of('state')}: unknown state {shown(text)}") from None


def _read_range(source: Fields) -> KeyRange:
    try:
        return KeyRange(source.integer("start"), source.integer("end"))
    except InvalidInput as error:
        raise Corrupt(f"{source.path_of('end')}: {error}") from error
