"""The auto-scale settings of one topic or namespace: what is set there, the rest falls through.

This is the vocabulary only. What the layers resolve to, and whether that makes sense, is for the
controller to say.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from anabranch.topics.json_fields import Fields, Json


@dataclass(frozen=True, slots=True)
class AutoScaleOverride:
    """None is "not set here"."""

    enabled: bool | None = None
    max_segments: int | None = None
    min_segments: int | None = None
    max_dag_depth: int | None = None
    split_cooldown_seconds: int | None = None
    merge_cooldown_seconds: int | None = None
    merge_window_seconds: int | None = None
    split_msg_rate_in_threshold: float | None = None
    split_msg_rate_out_threshold: float | None = None
    split_bytes_rate_in_threshold: int | None = None
    split_bytes_rate_out_threshold: int | None = None
    merge_msg_rate_in_threshold: float | None = None
    merge_msg_rate_out_threshold: float | None = None
    merge_bytes_rate_in_threshold: int | None = None
    merge_bytes_rate_out_threshold: int | None = None
    # What a newer writer has set and this version does not know.
    unknown: dict[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        known: dict[str, Json] = {
            json_name: getattr(self, name)
            for name, json_name in JSON_NAMES.items()
            if getattr(self, name) is not None
        }
        return known | self.unknown


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


JSON_NAMES = {
    each.name: _camel_case(each.name)
    for each in fields(AutoScaleOverride)
    if each.name != "unknown"
}


def read_autoscale_override(source: Fields) -> AutoScaleOverride:
    return AutoScaleOverride(
        enabled=source.optional_flag("enabled"),
        max_segments=source.optional_integer("maxSegments"),
        min_segments=source.optional_integer("minSegments"),
        max_dag_depth=source.optional_integer("maxDagDepth"),
        split_cooldown_seconds=source.optional_integer("splitCooldownSeconds"),
        merge_cooldown_seconds=source.optional_integer("mergeCooldownSeconds"),
        merge_window_seconds=source.optional_integer("mergeWindowSeconds"),
        split_msg_rate_in_threshold=source.optional_number("splitMsgRateInThreshold"),
        split_msg_rate_out_threshold=source.optional_number("splitMsgRateOutThreshold"),
        split_bytes_rate_in_threshold=source.optional_integer("splitBytesRateInThreshold"),
        split_bytes_rate_out_threshold=source.optional_integer("splitBytesRateOutThreshold"),
        merge_msg_rate_in_threshold=source.optional_number("mergeMsgRateInThreshold"),
        merge_msg_rate_out_threshold=source.optional_number("mergeMsgRateOutThreshold"),
        merge_bytes_rate_in_threshold=source.optional_integer("mergeBytesRateInThreshold"),
        merge_bytes_rate_out_threshold=source.optional_integer("mergeBytesRateOutThreshold"),
        unknown=source.rest(),
    )
