from __future__ import annotations

from typing import Any

import pytest

from anabranch.broker import config_keys as kinds
from anabranch.broker.config_keys import Key, Kind, show
from anabranch.broker.policy_values import QuotaAction


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (kinds.integer(), 5, 5),
        (kinds.integer(), "5", 5),
        (kinds.integer(), " 50_000 ", 50_000),
        (kinds.integer(-1), "-1", -1),
        (kinds.integer(), 5.0, 5),
        (kinds.seconds(), 60, 60),
        (kinds.seconds(), "60s", 60),
        (kinds.seconds(), "1m", 60),
        (kinds.seconds(), "1.5h", 5400),
        (kinds.seconds(), "2000ms", 2),
        (kinds.milliseconds(), "7ms", 7),
        (kinds.milliseconds(), "5S", 5000),
        (kinds.minutes(), "1d", 1440),
        (kinds.minutes(), "120s", 2),
        (kinds.bytes_(), "50MB", 50_000_000),
        (kinds.bytes_(), "64KiB", 65_536),
        (kinds.bytes_(), "1 GiB", 1 << 30),
        (kinds.megabytes(), "64MB", 64),
        (kinds.megabytes(), "2GB", 2048),
        (kinds.share(), "25%", 0.25),
        (kinds.share(), 0.25, 0.25),
        (kinds.share(), 1, 1.0),
        (kinds.number(), "1.5", 1.5),
        (kinds.number(-1.0), -1, -1.0),
        (kinds.flag(), True, True),
        (kinds.flag(), "False", False),
        (kinds.text(), " x ", "x"),
        (kinds.name(), "us-west.1", "us-west.1"),
        (kinds.choice(QuotaAction), "PRODUCER_EXCEPTION", QuotaAction.REFUSE),
        (kinds.texts(["a", "b"]), ["b", "a"], ("a", "b")),
        (kinds.texts(["a", "b"]), "b, a,", ("a", "b")),
    ],
)
def test_values_are_read_from_toml_and_from_text(kind: Kind, raw: object, value: Any) -> None:
    assert kind.read(raw) == value
    assert kind.read(show(value)) == value


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (kinds.integer(), -1),
        (kinds.integer(0, 10), 11),
        (kinds.integer(), 1.5),
        (kinds.integer(), True),
        (kinds.integer(), "5s"),
        (kinds.integer(), "x"),
        (kinds.integer(), ""),
        (kinds.integer(), [1]),
        (kinds.integer(), float("inf")),
        (kinds.integer(), float("nan")),
        (kinds.integer(), "9" * 5000),
        (kinds.seconds(), "500ms"),
        (kinds.seconds(), "5MB"),
        (kinds.bytes_(), "5s"),
        (kinds.bytes_(), "0.3B"),
        (kinds.share(), "101%"),
        (kinds.share(), -0.1),
        (kinds.number(), "-1"),
        (kinds.number(), float("inf")),
        (kinds.flag(), 1),
        (kinds.flag(), "yes"),
        (kinds.text(), 5),
        (kinds.name(), "  "),
        (kinds.name(), ".."),
        (kinds.name(), "a/b"),
        (kinds.name(), 3),
        (kinds.choice(QuotaAction), "panic"),
        (kinds.choice(QuotaAction), 3),
        (kinds.texts(["a"]), ["b"]),
        (kinds.texts(["a"]), [3]),
        (kinds.texts(["a"]), 3),
    ],
)
def test_what_is_wrong_is_told_with_what_was_expected(kind: Kind, raw: object) -> None:
    key = Key("k", kind, None, "")
    with pytest.raises(ValueError, match=r"expected .*, got "):
        key.read(raw)


def test_long_values_are_cut_in_messages() -> None:
    with pytest.raises(ValueError, match=r"…$"):
        Key("k", kinds.integer(), None, "").read("x" * 10_000)
