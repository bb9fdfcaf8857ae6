"""All that the metadata store keeps of a scalable topic, as JSON.

    {"epoch":1,"nextSegmentId":3,
     "segments":{"0":<segment>,"1":<segment>,"2":<segment>},     see segment_json.py
     "properties":{"team":"a"},
     "autoScalePolicy":{"maxSegments":8},                         if set
     "routing":"murmur3-high16",
     "incarnation":"…",                                           this life of the topic
     "migratedFrom":{"topic":"persistent://t/n/x","partitions":4} if it was
     "transition":{"kind":"SPLIT",…}}                             while under way: transition.py

A record that another implementation wrote lacks the last four; it is read all the same. Fields that
this version does not know, of the record, a segment, the policy or the origin, survive a rewrite.
Everything but the layout is carried along by every change of the layout, because a rewrite that
lost a topic's properties or policy would be found out long after.

Equal records have equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from anabranch.errors import Corrupt, InvalidInput
from anabranch.topics.autoscale_override import AutoScaleOverride, read_autoscale_override
from anabranch.topics.json_fields import Fields, Json, encode_json, parse_json, shown
from anabranch.topics.layout import Layout, checked_layout
from anabranch.topics.ring import DEFAULT_ROUTING, Routing
from anabranch.topics.segment import Segment, SegmentId
from anabranch.topics.segment_json import read_segment, segment_to_json, unknown_fields
from anabranch.topics.transition import LayoutTransition, Transition, read_transition

_NAME = "topic record"


@dataclass(frozen=True, slots=True)
class MigrationOrigin:
    """The regular topic that this one was; for people and metrics, nothing decides by it."""

    topic: str
    # 0 if it was not partitioned.
    partitions: int
    unknown: dict[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        known: dict[str, Json] = {"topic": self.topic, "partitions": self.partitions}
        return known | self.unknown


@dataclass(frozen=True, slots=True)
class TopicRecord:
    layout: Layout
    properties: dict[str, str] = field(default_factory=dict)
    autoscale: AutoScaleOverride | None = None
    # Random, made at creation. None in a record that another implementation wrote.
    incarnation: str | None = None
    migrated_from: MigrationOrigin | None = None
    transition: Transition | None = None
    # Fields of a newer writer: of the record, and of its segments.
    unknown: dict[str, Json] = field(default_factory=dict)
    unknown_of_segments: dict[SegmentId, dict[str, Json]] = field(default_factory=dict)

    def with_layout(self, layout: Layout) -> TopicRecord:
        """After a prune, or a split or merge made at one stroke; all else stays."""
        assert self.transition is None, f"{self.transition} was planned for another layout"
        assert layout.epoch > self.layout.epoch, f"{layout.epoch} <= {self.layout.epoch}"
        kept = {each: found for each, found in self.unknown_of_segments.items() if layout.get(each)}
        return replace(self, layout=layout, unknown_of_segments=kept)

    def committed(self) -> TopicRecord:
        """After the last step of the split or merge under way: its layout, and no transition.

        Raises Stale if the plan is not for this layout.
        """
        assert isinstance(self.transition, LayoutTransition), self.transition
        return self.without_transition().with_layout(self.layout.apply(self.transition.change))

    def with_transition(self, transition: Transition) -> TopicRecord:
        """Before the first step: one intent at a time."""
        assert self.transition is None, self.transition
        return replace(self, transition=transition)

    def without_transition(self) -> TopicRecord:
        """After it was undone."""
        return replace(self, transition=None)

    def with_properties(self, changed: Mapping[str, str]) -> TopicRecord:
        """Merged: what is not named stays."""
        return replace(self, properties=self.properties | dict(changed))

    def without_property(self, key: str) -> TopicRecord:
        kept = {each: value for each, value in self.properties.items() if each != key}
        return replace(self, properties=kept)

    def with_autoscale(self, override: AutoScaleOverride | None) -> TopicRecord:
        return replace(self, autoscale=override)

    def shows_same_layout_as(self, other: TopicRecord) -> bool:
        """Whether watchers of the layout would see no difference."""
        return (self.layout, self.incarnation) == (other.layout, other.incarnation)

    def to_json(self) -> bytes:
        made: dict[str, Json] = {
            "epoch": self.layout.epoch,
            "nextSegmentId": self.layout.next_segment_id,
            "segments": {str(each.id): self._segment(each) for each in self.layout.segments},
            "properties": dict(sorted(self.properties.items())),
        }
        if self.autoscale is not None:
            made["autoScalePolicy"] = self.autoscale.to_json()
        made["routing"] = self.layout.routing.value
        if self.incarnation is not None:
            made["incarnation"] = self.incarnation
        if self.migrated_from is not None:
            made["migratedFrom"] = self.migrated_from.to_json()
        if self.transition is not None:
            made["transition"] = self.transition.to_json()
        return encode_json(made | _sorted(self.unknown))

    def _segment(self, segment: Segment) -> dict[str, Json]:
        unknown = self.unknown_of_segments.get(segment.id, {})
        return segment_to_json(segment) | _sorted(unknown)


def parse_topic_record(data: bytes) -> TopicRecord:
    source = Fields(parse_json(data, _NAME), _NAME)
    layout, unknown_of_segments = _read_layout(source)
    return TopicRecord(
        layout=layout,
        properties=source.texts("properties"),
        autoscale=_read_autoscale(source),
        incarnation=source.optional_text("incarnation"),
        migrated_from=_read_origin(source),
        transition=_read_transition(source),
        unknown=source.rest(),
        unknown_of_segments=unknown_of_segments,
    )


def _read_layout(source: Fields) -> tuple[Layout, dict[SegmentId, dict[str, Json]]]:
    segments: list[Segment] = []
    unknown: dict[SegmentId, dict[str, Json]] = {}
    for key, raw in source.object("segments").items():
        path = f"{source.path_of('segments')}.{key}"
        fields_of_segment = Fields(raw, path)
        segment = read_segment(fields_of_segment)
        if key != str(segment.id):
            raise Corrupt(f"{path}: holds segment {segment.id}")
        segments.append(segment)
        kept = unknown_fields(fields_of_segment)
        if kept:
            unknown[segment.id] = kept
    epoch, next_id = source.integer("epoch"), source.integer("nextSegmentId")
    try:
        return checked_layout(epoch, next_id, segments, _read_routing(source)), unknown
    except InvalidInput as error:
        raise Corrupt(f"{_NAME}: {error}") from error


def _read_routing(source: Fields) -> Routing:
    text = source.text("routing", DEFAULT_ROUTING.value)
    try:
        return Routing(text)
    except ValueError:
        raise Corrupt(
            f"{source.path_of('routing')}: {shown(text)} is not known to this version; "
            f"routing by another rule would break the order of keys"
        ) from None


def _read_autoscale(source: Fields) -> AutoScaleOverride | None:
    if not source.has("autoScalePolicy"):
        return None
    return read_autoscale_override(source.nested("autoScalePolicy"))


def _read_origin(source: Fields) -> MigrationOrigin | None:
    if not source.has("migratedFrom"):
        return None
    origin = source.nested("migratedFrom")
    topic, partitions = origin.text("topic"), origin.integer("partitions")
    return MigrationOrigin(topic, partitions, origin.rest())


def _read_transition(source: Fields) -> Transition | None:
    return read_transition(source.nested("transition")) if source.has("transition") else None


def _sorted(unknown: Mapping[str, Json]) -> dict[str, Json]:
    return dict(sorted(unknown.items()))
