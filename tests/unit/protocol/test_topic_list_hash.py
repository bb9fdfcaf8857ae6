from __future__ import annotations

import pytest
from crc32c import crc32c

from anabranch.protocol.topic_list_hash import topic_list_hash

PATTERN = "persistent://my-property/my-ns/pattern-topic-{}"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], "00000000"),
        ([PATTERN.format(1)], "0d0602ed"),
        ([PATTERN.format(n) for n in (1, 2, 3)], "90d4a04a"),
        ([PATTERN.format(n) for n in (3, 1, 2)], "90d4a04a"),
        (["topic://public/default/a"], "9c20e29b"),
        (["topic://public/default/a", "topic://public/default/b"], "ad97d07d"),
        (["topic://t/n/x", "topic://t/n/y", "topic://t/n/z"], "3a52d749"),
    ],
)
def test_known_hashes(names: list[str], expected: str) -> None:
    assert topic_list_hash(names) == expected


def test_names_are_sorted_by_utf16_code_units_not_by_code_points() -> None:
    # U+FF5E is the smaller code point, but U+10000 begins with the smaller unit, 0xD800.
    by_units = "\U00010000,\uff5e".encode()
    expected = crc32c(by_units).to_bytes(4, "little").hex()
    assert topic_list_hash(["\uff5e", "\U00010000"]) == expected
