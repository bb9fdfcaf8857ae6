from __future__ import annotations

import pytest

from anabranch.broker.sticky_key import sticky_hash
from anabranch.topics.murmur3 import murmur3_32


# Published values of the classic hash, not computed by us.
@pytest.mark.parametrize(
    ("text", "masked"),
    [("k1", 2110152746), ("key1", 462881061), ("key2", 1936800180), ("orders-42", 1142931490)],
)
def test_the_hash_is_the_masked_murmur_modulo_the_ring(text: str, masked: int) -> None:
    assert sticky_hash(text.encode()) == masked % 65536


def test_no_key_hashes_to_zero() -> None:
    assert murmur3_32(b"") == 0
    assert sticky_hash(b"") == 1
