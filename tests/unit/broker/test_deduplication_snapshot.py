from __future__ import annotations

import pytest

from anabranch.broker.deduplication_snapshot import Snapshot, encode_snapshot, parse_snapshot
from anabranch.errors import Corrupt
from anabranch.topics.positions import Position


def test_the_format_is_the_one_that_is_written_down() -> None:
    data = encode_snapshot(Snapshot(Position(4, 17), {"b": 2, "a": 1}))
    assert data == b'{"position":[4,17],"producers":{"a":1,"b":2},"version":1}'


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"version":1,"position":[1],"producers":{}}',
        b'{"version":1,"position":[1,2],"producers":[]}',
        b'{"version":1,"position":[1,2],"producers":{"a":"1"}}',
        b'{"version":1,"position":[1,2.5],"producers":{}}',
        b'{"version":2,"position":[1,2],"producers":{}}',
    ],
)
def test_damaged_bytes_are_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match="deduplication snapshot"):
        parse_snapshot(data)
