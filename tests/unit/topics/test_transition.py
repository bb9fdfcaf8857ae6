from __future__ import annotations

import pytest

from anabranch.errors import Corrupt
from anabranch.topics.json_fields import Fields, Json
from anabranch.topics.layout_changes import plan_merge, plan_split
from anabranch.topics.new_layouts import initial_layout
from anabranch.topics.transition import (
    Deletion,
    LayoutTransition,
    Transition,
    UnknownTransition,
    read_transition,
)

LAYOUT = initial_layout(2, 100)
SPLIT = LayoutTransition("op-7", plan_split(LAYOUT, 0, 200))
MERGE = LayoutTransition("op-8", plan_merge(LAYOUT, (1, 0), 200))


def read(raw: Json) -> Transition:
    return read_transition(Fields(raw, "transition"))


@pytest.mark.parametrize("transition", [SPLIT, MERGE, Deletion("op-9", 300)])
def test_intent_is_read_as_it_was_written(transition: Transition) -> None:
    assert read(transition.to_json()) == transition


def test_intent_says_everything_a_new_leader_needs() -> None:
    raw = SPLIT.to_json()
    assert {key: raw[key] for key in ("kind", "operation", "epoch", "atMs", "parentIds")} == {
        "kind": "SPLIT",
        "operation": "op-7",
        "epoch": 1,
        "atMs": 200,
        "parentIds": [0],
    }
    found = read(raw)
    assert isinstance(found, LayoutTransition)
    assert LAYOUT.apply(found.change) == LAYOUT.apply(SPLIT.change)


def test_intent_of_a_newer_version_is_kept_as_it_stands() -> None:
    raw: Json = {"kind": "REBUCKET", "operation": "op-1", "segments": [1, {"x": 2}]}
    found = read(raw)
    assert isinstance(found, UnknownTransition)
    assert found.to_json() == raw


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({}, "transition.kind: missing"),
        ({"kind": "DELETE", "operation": "op"}, "transition.atMs: missing"),
        (SPLIT.to_json() | {"operation": None}, "transition.operation: missing"),
        (SPLIT.to_json() | {"children": []}, "a SPLIT has parents and children"),
        (SPLIT.to_json() | {"parentIds": []}, "a SPLIT has parents and children"),
        (SPLIT.to_json() | {"children": [3]}, r"transition.children\[0\]: expected an object"),
    ],
)
def test_intent_with_a_hole_is_corrupt(raw: Json, message: str) -> None:
    with pytest.raises(Corrupt, match=message):
        read(raw)
