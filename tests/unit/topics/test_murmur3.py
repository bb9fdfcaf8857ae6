"""The hash equals its published vectors; that it equals a second one is a law, see property/."""

from __future__ import annotations

import pytest

from anabranch.topics.murmur3 import murmur3_32
from tests.unit.topics.hash_vectors import CLIENT_VECTORS, VECTORS, slow_murmur3

KNOWN = {each.key: each.raw for each in VECTORS} | {each.key: each.raw for each in CLIENT_VECTORS}


@pytest.mark.parametrize("key", KNOWN)
def test_hash_equals_its_vector(key: str) -> None:
    assert murmur3_32(key.encode()) == KNOWN[key]


@pytest.mark.parametrize("key", KNOWN)
def test_witness_equals_the_vectors_too(key: str) -> None:
    assert slow_murmur3(key.encode()) == KNOWN[key]


@pytest.mark.parametrize("size", range(9))
def test_bytes_with_the_top_bit_are_unsigned(size: int) -> None:
    key = b"\xff" * size
    assert murmur3_32(key) == slow_murmur3(key)


def test_hash_is_raw_and_unsigned() -> None:
    assert murmur3_32(b"k1") > 0x7FFFFFFF
