from __future__ import annotations

import pytest

from anabranch.errors import Corrupt
from anabranch.topics.autoscale_override import (
    JSON_NAMES,
    AutoScaleOverride,
    read_autoscale_override,
)
from anabranch.topics.json_fields import Fields, Json

EVERY_FIELD: dict[str, Json] = {
    "enabled": False,
    "maxSegments": 8,
    "minSegments": 2,
    "maxDagDepth": 5,
    "splitCooldownSeconds": 60,
    "mergeCooldownSeconds": 300,
    "mergeWindowSeconds": 301,
    "splitMsgRateInThreshold": 10000.5,
    "splitMsgRateOutThreshold": 50000.5,
    "splitBytesRateInThreshold": 50_000_000,
    "splitBytesRateOutThreshold": 250_000_000,
    "mergeMsgRateInThreshold": 1000.5,
    "mergeMsgRateOutThreshold": 5000.5,
    "mergeBytesRateInThreshold": 5_000_000,
    "mergeBytesRateOutThreshold": 25_000_000,
}


def read(raw: Json) -> AutoScaleOverride:
    return read_autoscale_override(Fields(raw, "policy"))


def test_every_field_is_read_and_written_under_its_name() -> None:
    assert read(EVERY_FIELD).to_json() == EVERY_FIELD
    assert set(JSON_NAMES.values()) == set(EVERY_FIELD)
    assert None not in [getattr(read(EVERY_FIELD), name) for name in JSON_NAMES]


@pytest.mark.parametrize("name", EVERY_FIELD)
def test_each_field_is_optional_and_alone(name: str) -> None:
    assert read({name: EVERY_FIELD[name]}).to_json() == {name: EVERY_FIELD[name]}


def test_nothing_set_falls_through_everywhere() -> None:
    assert read({}) == AutoScaleOverride()
    assert AutoScaleOverride().to_json() == {}


def test_zero_and_false_are_set() -> None:
    assert AutoScaleOverride(enabled=False, max_dag_depth=0).to_json() == {
        "enabled": False,
        "maxDagDepth": 0,
    }


def test_settings_of_a_newer_version_survive() -> None:
    raw: Json = {"maxSegments": 3, "splitByMoonPhase": {"full": True}}
    assert read(raw).to_json() == raw


@pytest.mark.parametrize(
    "raw", [{"maxSegments": "8"}, {"enabled": 1}, {"splitMsgRateInThreshold": "fast"}, []]
)
def test_wrong_kinds_are_refused(raw: Json) -> None:
    with pytest.raises(Corrupt, match="policy"):
        read(raw)
