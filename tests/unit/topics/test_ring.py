from __future__ import annotations

import pytest

from anabranch.topics.ring import (
    Routing,
    bucket_value,
    hash_key,
    masked,
    partition_of,
    ring_value,
)
from tests.unit.topics.hash_vectors import CLIENT_VECTORS, VECTORS, ClientVector, HashVector


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.key or "empty")
def test_values_of_a_key_equal_the_protocol_vectors(vector: HashVector) -> None:
    raw = hash_key(vector.key)
    assert (ring_value(raw), bucket_value(raw)) == (vector.ring, vector.bucket)
    assert masked(raw) == vector.masked
    assert (partition_of(raw, 4), partition_of(raw, 3)) == (vector.mod_4, vector.mod_3)


@pytest.mark.parametrize("vector", CLIENT_VECTORS, ids=lambda vector: vector.key or "empty")
def test_values_of_a_key_equal_the_client_vectors(vector: ClientVector) -> None:
    raw = hash_key(vector.key)
    assert (ring_value(raw), bucket_value(raw)) == (vector.ring, vector.bucket)
    assert partition_of(raw, 4) == vector.mod_4


def test_low_half_routes_where_the_layout_says_so() -> None:
    raw = hash_key("orders-42")
    assert ring_value(raw, Routing.HIGH16) == 0xC41F
    assert ring_value(raw, Routing.LOW16) == 0xC022


def test_routing_names_are_those_of_the_record() -> None:
    assert [each.value for each in Routing] == ["murmur3-high16", "murmur3-low16"]
