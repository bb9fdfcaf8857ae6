"""Any text is a path element, and two texts are never the same one."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from anabranch.metadata.records import decode_element, encode_element
from anabranch.metadata.store import check_record_path

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


@given(names)
def test_encoding_can_be_undone_and_makes_one_valid_element(name: str) -> None:
    element = encode_element(name)
    check_record_path(f"/{element}")
    assert not set(element) & {"/", ":"}
    assert decode_element(element) == name
