from __future__ import annotations

import pytest

from anabranch.broker.sticky_key import NONE_KEY, sticky_hash, sticky_key
from anabranch.topics.murmur3 import murmur3_32


def key(
    ordering: bytes | None = None,
    partition: str | None = None,
    *,
    is_base64: bool = False,
    name: str | None = "p",
    sequence_id: int | None = 4,
) -> bytes:
    return sticky_key(
        ordering_key=ordering,
        partition_key=partition,
        is_base64=is_base64,
        producer_name=name,
        sequence_id=sequence_id,
    )


def test_the_ordering_key_goes_before_the_partition_key() -> None:
    assert key(b"o", "k") == b"o"
    assert key(None, "k") == b"k"


def test_an_empty_key_is_a_key() -> None:
    assert key(b"", "k") == b""
    assert key(None, "") == b""


def test_a_base64_key_counts_as_its_bytes() -> None:
    assert key(None, "AAH/", is_base64=True) == b"\x00\x01\xff"


def test_a_key_that_only_claims_to_be_base64_is_taken_as_text() -> None:
    assert key(None, "abc", is_base64=True) == b"abc"


def test_a_message_without_key_is_spread_by_its_sequence_id() -> None:
    assert key() == b"p-4"
    assert key(name=None) == NONE_KEY
    assert key(sequence_id=None) == NONE_KEY


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
