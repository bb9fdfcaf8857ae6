"""The intent in a topic's record: what its leader has set out to do and not yet finished.

It is written before the first side effect and cleared by the write that completes it, so a new
leader finds either nothing to do or exactly what to finish or undo. Segment owners obey only the
operation that the record names.

    {"kind":"SPLIT","operation":"…","epoch":2,"atMs":1700000000000,"parentIds":[0],
     "children":[<segment>,…]}
    {"kind":"DELETE","operation":"…","atMs":1700000000000}

A kind that this version does not know is kept as it stands: such a topic can still be read and
written, only a leader must leave its layout alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from anabranch.errors import Corrupt
from anabranch.topics.json_fields import Fields, Json
from anabranch.topics.layout import Change, ChangeKind
from anabranch.topics.segment import SegmentId
from anabranch.topics.segment_json import read_segment, segment_to_json

_DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class LayoutTransition:
    """A split or merge under way."""

    # Names this attempt to segment owners; made at random when it is planned.
    operation: str
    change: Change

    def to_json(self) -> dict[str, Json]:
        return {
            "kind": self.change.kind.value,
            "operation": self.operation,
            "epoch": self.change.epoch,
            "atMs": self.change.at_ms,
            "parentIds": list(self.change.parents),
            "children": [segment_to_json(child) for child in self.change.children],
        }


@dataclass(frozen=True, slots=True)
class Deletion:
    """The topic is going away: segments first, the record last."""

    operation: str
    at_ms: int

    def to_json(self) -> dict[str, Json]:
        return {"kind": _DELETE, "operation": self.operation, "atMs": self.at_ms}


@dataclass(frozen=True, slots=True)
class UnknownTransition:
    """A newer version's intent, verbatim."""

    raw: dict[str, Json]

    def to_json(self) -> dict[str, Json]:
        return self.raw


Transition: TypeAlias = LayoutTransition | Deletion | UnknownTransition


def read_transition(source: Fields) -> Transition:
    kind = source.text("kind")
    if kind == _DELETE:
        return Deletion(source.text("operation"), source.integer("atMs"))
    if kind not in {each.value for each in ChangeKind}:
        return UnknownTransition(source.rest() | {"kind": kind})
    planned = enumerate(source.items("children"))
    path = source.path_of("children")
    children = tuple(read_segment(Fields(raw, f"{path}[{index}]")) for index, raw in planned)
    parents = tuple(SegmentId(each) for each in source.integers("parentIds"))
    if not parents or not children:
        raise Corrupt(f"{path}: a {kind} has parents and children, here {parents} and {children}")
    change = Change(
        ChangeKind(kind), parents, children, source.integer("epoch"), source.integer("atMs")
    )
    return LayoutTransition(source.text("operation"), change)
