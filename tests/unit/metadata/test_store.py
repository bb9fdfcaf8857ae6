from __future__ import annotations

import pytest

from anabranch.errors import InvalidInput
from anabranch.metadata.store import (
    ancestors_of,
    check_path,
    check_record_path,
    child_path,
    is_within,
    parent_of,
)


@pytest.mark.parametrize("path", ["/", "/a", "/a/b", "/a%20b/c:d", "/a/...", "/a+b/~"])
def test_well_formed_paths_pass(path: str) -> None:
    check_path(path)


def test_the_message_names_the_path() -> None:
    with pytest.raises(InvalidInput, match="'/a//b'"):
        check_path("/a//b")
    with pytest.raises(InvalidInput, match="root"):
        check_record_path("/")


def test_parents_and_children_are_each_others_inverse() -> None:
    for parent in ("/", "/a", "/a/b"):
        assert parent_of(child_path(parent, "x")) == parent
    assert ancestors_of("/a/b/c") == ["/a/b", "/a", "/"]
    assert ancestors_of("/") == []


def test_within_means_at_or_below() -> None:
    assert is_within("/a", "/a")
    assert is_within("/a/b", "/a")
    assert is_within("/a", "/")
    assert not is_within("/ab", "/a")
    assert not is_within("/", "/a")
