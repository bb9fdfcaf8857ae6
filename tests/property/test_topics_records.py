"""Laws of the stored record: it round-trips, keeps what it does not know, and refuses the rest."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.errors import Corrupt
from anabranch.topics.autoscale_override import AutoScaleOverride
from anabranch.topics.json_fields import Json
from anabranch.topics.layout import Change
from anabranch.topics.positions import Position
from anabranch.topics.record import MigrationOrigin, TopicRecord, parse_topic_record
from anabranch.topics.segment_json import PrunedSegment, parse_pruned_segment
from anabranch.topics.transition import LayoutTransition
from tests.unit.topics.layout_walks import History, histories

LAWS = settings(max_examples=60, deadline=None)

json_values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
overrides = st.builds(
    AutoScaleOverride,
    enabled=st.none() | st.booleans(),
    max_segments=st.none() | st.integers(1, 100),
    merge_window_seconds=st.none() | st.integers(0, 2**40),
    split_msg_rate_in_threshold=st.none() | st.floats(0, 1e9),
    unknown=st.dictionaries(st.sampled_from(["later", "other"]), json_values, max_size=2),
)
origins = st.builds(MigrationOrigin, st.text(max_size=9), st.integers(0, 99))


@st.composite
def first_records(draw: st.DrawFn, history: History) -> TopicRecord:
    return TopicRecord(
        layout=history.layouts[0],
        properties=draw(st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)),
        autoscale=draw(st.none() | overrides),
        incarnation=draw(st.none() | st.text(max_size=8)),
        migrated_from=draw(st.none() | origins),
        unknown=draw(st.dictionaries(st.sampled_from(["geo", "x-1"]), json_values, max_size=2)),
    )


@LAWS
@given(histories(), st.data())
def test_record_survives_every_rewrite(history: History, data: st.DataObject) -> None:
    record = data.draw(first_records(history))
    first = record
    for layout, change in zip(history.layouts[1:], history.changes, strict=True):
        if isinstance(change, Change):
            planned = record.with_transition(LayoutTransition("op", change))
            assert parse_topic_record(planned.to_json()) == planned
            assert planned.shows_same_layout_as(record)
            record = planned.committed()
        else:
            record = record.with_layout(layout)
        assert record.layout == layout
        assert parse_topic_record(record.to_json()) == record
    kept = (record.properties, record.autoscale, record.incarnation, record.migrated_from)
    assert kept == (first.properties, first.autoscale, first.incarnation, first.migrated_from)
    assert (record.unknown, record.layout.routing) == (first.unknown, first.layout.routing)


@LAWS
@given(histories(), st.data())
def test_bytes_are_stable(history: History, data: st.DataObject) -> None:
    written = data.draw(first_records(history)).to_json()
    assert parse_topic_record(written).to_json() == written


@LAWS
@given(histories(), st.integers(-1, 2**63 - 1), st.integers(-1, 2**63 - 1))
def test_pruned_segments_are_read_as_they_were_written(
    history: History, ledger: int, entry: int
) -> None:
    for segment in history.pruned:
        pruned = PrunedSegment(segment, Position(ledger, entry))
        assert parse_pruned_segment(pruned.to_json()) == pruned


@settings(max_examples=300, deadline=None)
@given(histories(), st.data())
def test_record_with_one_value_replaced_is_read_or_corrupt(
    history: History, data: st.DataObject
) -> None:
    raw = json.loads(TopicRecord(history.last).to_json())
    place: Any = raw
    key: Any = data.draw(st.sampled_from(sorted(raw)))
    while isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
        place = place[key]
        choices = sorted(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(choices))
    place[key] = data.draw(json_values)
    parse_or_corrupt(json.dumps(raw).encode())


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=40) | json_values.map(lambda value: json.dumps(value).encode()))
def test_other_bytes_are_always_corrupt(data: bytes) -> None:
    assert parse_or_corrupt(data) is None


def parse_or_corrupt(data: bytes) -> TopicRecord | None:
    try:
        return parse_topic_record(data)
    except Corrupt:
        return None
