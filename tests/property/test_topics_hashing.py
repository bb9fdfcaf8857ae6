"""The hash equals a second implementation, and a column of keys equals its keys one by one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from anabranch.topics.key_columns import (
    LONG_KEY_BYTES,
    NO_SEGMENT,
    Offsets,
    hash_in_a_loop,
    hash_keys,
    hash_with_numpy,
)
from anabranch.topics.key_columns import route_many as route_column
from anabranch.topics.murmur3 import murmur3_32
from anabranch.topics.new_layouts import synthetic_layout
from anabranch.topics.routing import route
from tests.unit.topics.hash_vectors import slow_murmur3
from tests.unit.topics.layout_walks import TOPIC, History, histories

LAWS = settings(max_examples=200, deadline=None)
keys_of_any_size = st.binary(max_size=40) | st.binary(
    min_size=LONG_KEY_BYTES - 8, max_size=LONG_KEY_BYTES + 8
)
columns = st.lists(keys_of_any_size, max_size=30)
raw_hashes = st.lists(st.integers(0, 0xFFFFFFFF), max_size=20)


@LAWS
@given(st.binary(max_size=100))
def test_hash_equals_its_witness(key: bytes) -> None:
    assert murmur3_32(key) == slow_murmur3(key)


@LAWS
@given(columns)
def test_column_equals_its_keys_one_by_one(keys: list[bytes]) -> None:
    found = hash_keys(keys)
    assert found.dtype == np.uint32
    assert found.tolist() == [slow_murmur3(key) for key in keys]


@pytest.mark.parametrize("hash_column", [hash_in_a_loop, hash_with_numpy])
@LAWS
@given(values=st.binary(max_size=3 * LONG_KEY_BYTES), data=st.data())
def test_packed_column_equals_the_slices_it_names(
    hash_column: Callable[[bytes, Offsets], NDArray[np.uint32]], values: bytes, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), min_size=1, max_size=12)))
    found = hash_column(values, np.array(cuts, dtype=np.int32))
    assert found.dtype == np.uint32
    assert found.tolist() == [slow_murmur3(values[start:end]) for start, end in pairwise(cuts)]


@settings(max_examples=60, deadline=None)
@given(histories(), raw_hashes)
def test_column_is_routed_like_its_keys_one_by_one(history: History, raw: list[int]) -> None:
    column = np.array(raw, dtype=np.uint32)
    for layout in history.layouts:
        one_by_one = [getattr(route(layout, each), "id", NO_SEGMENT) for each in raw]
        assert route_column(layout, column).tolist() == one_by_one


@LAWS
@given(st.integers(0, 9), raw_hashes)
def test_column_of_a_regular_topic_is_routed_like_its_keys(partitions: int, raw: list[int]) -> None:
    layout = synthetic_layout(TOPIC, partitions)
    one_by_one = [(each & 0x7FFFFFFF) % max(1, partitions) for each in raw]
    assert route_column(layout, np.array(raw, dtype=np.uint32)).tolist() == one_by_one
