from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import numpy as np
import pytest
from numpy.typing import NDArray

from anabranch.errors import InvalidInput
from anabranch.topics.key_columns import (
    LONG_KEY_BYTES,
    NO_SEGMENT,
    Offsets,
    hash_in_a_loop,
    hash_keys,
    hash_packed,
    hash_with_numpy,
    route_many,
)
from anabranch.topics.names import parse_topic_name
from anabranch.topics.new_layouts import initial_layout, synthetic_layout
from anabranch.topics.ring import Routing
from anabranch.topics.routing import route
from tests.unit.topics.hash_vectors import CLIENT_VECTORS, VECTORS, slow_murmur3

# Which of the two is chosen depends on the build; both must be right in every build.
BOTH = pytest.mark.parametrize("hash_column", [hash_in_a_loop, hash_with_numpy])
HashColumn = Callable[[bytes, Offsets], NDArray[np.uint32]]


def pack(keys: list[bytes]) -> tuple[bytes, NDArray[np.int64]]:
    ends = list(accumulate((len(key) for key in keys), initial=0))
    return b"".join(keys), np.array(ends, dtype=np.int64)


def test_column_of_the_vectors_hashes_like_each_of_them() -> None:
    known = {each.key: each.raw for each in VECTORS}
    known |= {each.key: each.raw for each in CLIENT_VECTORS}
    assert hash_keys([key.encode() for key in known]).tolist() == list(known.values())


def test_no_keys_have_no_hashes() -> None:
    assert hash_keys([]).tolist() == []


@BOTH
def test_very_long_keys_hash_like_the_others(hash_column: HashColumn) -> None:
    sizes = [LONG_KEY_BYTES - 1, LONG_KEY_BYTES, LONG_KEY_BYTES + 1, 10_000, 0, 3]
    keys = [bytes(at % 251 for at in range(size)) for size in sizes]
    assert hash_column(*pack(keys)).tolist() == [slow_murmur3(key) for key in keys]


def test_packed_column_may_be_a_slice_of_a_larger_one() -> None:
    offsets = np.array([2, 4, 4, 8], dtype=np.int32)
    expected = [slow_murmur3(key) for key in (b"k1", b"", b"key2")]
    assert hash_packed(memoryview(b"??k1key2!!"), offsets).tolist() == expected


@BOTH
@pytest.mark.parametrize("offsets", [[], [0, 9], [-1, 2], [0, 3, 2, 8]])
def test_offsets_that_leave_the_values_are_refused(
    hash_column: HashColumn, offsets: list[int]
) -> None:
    with pytest.raises(InvalidInput, match="offsets must rise"):
        hash_column(b"12345678", np.array(offsets, dtype=np.int64))


@pytest.mark.parametrize("routing", list(Routing))
def test_column_is_routed_like_each_of_its_keys(routing: Routing) -> None:
    layout = initial_layout(5, 0, routing=routing)
    raw = hash_keys([b"key-%d" % index for index in range(200)])
    expected = [getattr(route(layout, int(each)), "id", NO_SEGMENT) for each in raw]
    assert route_many(layout, raw).tolist() == expected
    assert len(set(expected)) == 5


def test_column_of_a_regular_topic_is_routed_to_partitions() -> None:
    layout = synthetic_layout(parse_topic_name("x"), 4)
    raw = hash_keys([each.key.encode() for each in VECTORS])
    assert route_many(layout, raw).tolist() == [each.mod_4 for each in VECTORS]
