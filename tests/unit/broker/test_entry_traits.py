from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.broker.entry_traits import deliver_at_ms, slot_hashes
from anabranch.broker.sticky_key import NONE_KEY, sticky_hash
from anabranch.protocol import wire_pb2
from anabranch.protocol.entries import broker_block, build_entry


def entry(*, with_checksum: bool = True, **fields: object) -> bytes:
    metadata = wire_pb2.MessageMetadata(
        producer_name="p",
        sequence_id=1,
        publish_time=1,
        **fields,  # type: ignore[arg-type]
    )
    return build_entry(metadata, b"payload", with_checksum=with_checksum)


@pytest.mark.parametrize("with_checksum", [True, False])
def test_the_time_of_a_delayed_entry_is_found(with_checksum: bool) -> None:
    assert deliver_at_ms(entry(deliver_at_time=12345, with_checksum=with_checksum)) == 12345
    assert deliver_at_ms(entry(with_checksum=with_checksum)) == 0
    assert deliver_at_ms(memoryview(entry(deliver_at_time=5))) == 5
    assert deliver_at_ms(broker_block(1, 2) + entry(deliver_at_time=7)) == 7


def test_bytes_that_look_like_a_time_are_none() -> None:
    assert deliver_at_ms(entry(ordering_key=b"\x98\x01\x98\x01")) == 0


@given(key=st.text(), stamp=st.none() | st.integers(0, 65535))
def test_hashes_are_those_of_the_key_and_the_stamp(key: str, stamp: int | None) -> None:
    more: dict[str, Any] = {} if stamp is None else {"entry_hash_min": stamp}
    expected = sticky_hash(key.encode()), stamp
    assert slot_hashes(entry(partition_key=key, **more)) == expected
    assert slot_hashes(entry(ordering_key=key.encode(), partition_key="other", **more)) == expected


@given(st.binary(max_size=60))
def test_what_makes_no_sense_is_due_now_and_has_some_slot(data: bytes) -> None:
    assert deliver_at_ms(data) >= -(2**63)
    assert 1 <= slot_hashes(data)[0] <= 65535


def test_an_unreadable_entry_has_the_key_of_nobody() -> None:
    assert slot_hashes(b"\x00\x00\x00\x02\xff\xff") == (sticky_hash(NONE_KEY), None)
