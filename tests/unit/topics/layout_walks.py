"""Random histories of a topic for property tests: a first layout, then splits, merges and prunes.

A step names segments by number modulo how many there are, so every list of steps is a possible
history and Hypothesis can shrink it. A step that cannot be taken is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from anabranch.topics.layout import Change, Layout
from anabranch.topics.layout_changes import plan_merge, plan_split
from anabranch.topics.names import parse_topic_name
from anabranch.topics.new_layouts import initial_layout, migrated_layout
from anabranch.topics.ring import Routing
from anabranch.topics.segment import Segment

TOPIC = parse_topic_name("persistent://t/n/x")


@dataclass(frozen=True)
class Step:
    kind: str
    where: int
    count: int


@dataclass
class History:
    """Layouts in the order they were, and what led from each to the next."""

    layouts: list[Layout]
    changes: list[Change | tuple[Segment, ...]] = field(default_factory=list)

    @property
    def last(self) -> Layout:
        return self.layouts[-1]

    @property
    def pruned(self) -> list[Segment]:
        return [each for change in self.changes if isinstance(change, tuple) for each in change]

    @property
    def born(self) -> list[Segment]:
        """Every segment that ever was, as it was when it began."""
        children = [change.children for change in self.changes if isinstance(change, Change)]
        return [*self.layouts[0].segments, *(child for made in children for child in made)]


steps = st.builds(
    Step,
    kind=st.sampled_from(["halve", "split", "merge", "prune"]),
    where=st.integers(0, 0xFFFF),
    count=st.integers(1, 5),
)

first_layouts = st.one_of(
    st.builds(
        initial_layout,
        st.integers(1, 9),
        st.just(1000),
        routing=st.sampled_from(Routing),
        bucket_budget=st.integers(1, 40),
    ),
    st.builds(migrated_layout, st.just(TOPIC), st.integers(0, 5), st.just(1000)),
)


@st.composite
def histories(draw: st.DrawFn) -> History:
    return walk(draw(first_layouts), draw(st.lists(steps, max_size=25)))


def walk(first: Layout, taken: Sequence[Step]) -> History:
    history = History([first])
    for number, step in enumerate(taken):
        if step.kind == "prune":
            _prune(history, step)
        else:
            _change(history, step, now_ms=2000 + number)
    return history


def _change(history: History, step: Step, now_ms: int) -> None:
    layout = history.last
    change = _plan(layout, step, now_ms)
    if change is not None:
        history.changes.append(change)
        history.layouts.append(layout.apply(change))


def _plan(layout: Layout, step: Step, now_ms: int) -> Change | None:
    at = step.where % len(layout.active)
    segment = layout.active[at]
    if step.kind == "merge":
        group = layout.active[at : at + step.count + 1]
        # Named in an order of their own, so that it cannot be the order that matters.
        ids = sorted((each.id for each in group), key=lambda each: (each * 7919) % 101)
        return plan_merge(layout, ids, now_ms) if len(ids) > 1 else None
    if segment.keys.size <= step.count + 1:
        return None
    if step.kind == "halve":
        return plan_split(layout, segment.id, now_ms)
    first = segment.keys.start + 1 + step.where % (segment.keys.size - step.count)
    return plan_split(layout, segment.id, now_ms, points=range(first, first + step.count))


def _prune(history: History, step: Step) -> None:
    layout = history.last
    sealed = [segment.id for segment in layout.segments if segment.is_sealed]
    if sealed:
        at = step.where % len(sealed)
        after, gone = layout.prune(sealed[at : at + step.count])
        history.changes.append(gone)
        history.layouts.append(after)
