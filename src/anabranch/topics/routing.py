"""Which active segment a message goes to, by its key or, without one, in turn.

Keys follow ranges. The exception is a layout whose active segments are all legacy: it stands for a
regular topic, where the segment is the one whose id is the partition that classic clients choose.
An empty key is a key; only a missing one is keyless.
"""

from __future__ import annotations

from anabranch.topics.layout import Layout
from anabranch.topics.ring import partition_of, ring_value
from anabranch.topics.segment import Segment


def route(layout: Layout, raw: int) -> Segment | None:
    """The segment for a raw hash; None if the layout has none for it: wait for another layout."""
    if not layout.is_legacy:
        return layout.active_at(ring_value(raw, layout.routing))
    found = layout.get(partition_of(raw, len(layout.active)))
    return found if found is not None and found.is_active else None


def route_keyless(layout: Layout, turn: int) -> Segment:
    """Round robin in the order of the ranges; the caller counts the turns."""
    return layout.active[turn % len(layout.active)]
