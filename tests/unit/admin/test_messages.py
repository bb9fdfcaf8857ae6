"""What arrives as text is read once, and strictly."""

from __future__ import annotations

import pytest

from anabranch.admin.messages import Reply, Request, read_query, split_path
from anabranch.errors import InvalidInput, InvalidName, Malformed


def request(body: bytes = b"", query: bytes = b"", **elements: str) -> Request:
    return Request("GET", elements, read_query(query), body)


def test_an_encoded_slash_stays_inside_its_element() -> None:
    assert split_path(b"/persistent/t/n/a%2Fb%252F/stats") == (
        ["persistent", "t", "n", "a/b%2F", "stats"],
        False,
    )


def test_a_plus_in_a_path_is_a_plus() -> None:
    assert split_path(b"/a+b%20c") == (["a+b c"], False)


def test_a_slash_at_the_end_is_told_apart() -> None:
    assert split_path(b"/metrics/") == (["metrics"], True)
    assert split_path(b"/metrics") == (["metrics"], False)
    assert split_path(b"/") == ([], True)


@pytest.mark.parametrize("path", [b"/%ff", b"/a/%C3%28", "/ü".encode()])
def test_a_path_that_is_no_text_is_malformed(path: bytes) -> None:
    with pytest.raises(Malformed):
        split_path(path)


def test_a_body_of_whitespace_is_no_body() -> None:
    assert request(b" \n").json() is None
    assert request(b" \n").properties() == {}


@pytest.mark.parametrize("body", [b"{", b"NaN", b"[Infinity]", b"\xff", b"[" * 100_000, b"1 2"])
def test_a_body_that_is_no_json_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        request(body).json()


def test_a_body_that_is_needed_must_be_there() -> None:
    with pytest.raises(Malformed, match="needs a body"):
        request(b"").required_json()
    assert request(b"false").required_json() is False


@pytest.mark.parametrize("body", [b"[]", b"3", b'{"a": 1}', b'{"a": null}'])
def test_properties_are_strings(body: bytes) -> None:
    with pytest.raises(Malformed):
        request(body).properties()


def test_flags_and_numbers_of_a_query() -> None:
    asked = request(query=b"force=TRUE&n=-7&blank=")
    assert asked.flag("force")
    assert not asked.flag("missing")
    assert asked.flag("missing", default=True)
    assert not asked.flag("blank")
    assert asked.number("n") == -7
    assert asked.number("missing") is None


@pytest.mark.parametrize("query", [b"force=yes", b"force=1"])
def test_a_flag_is_true_or_false(query: bytes) -> None:
    with pytest.raises(Malformed, match="true or false"):
        request(query=query).flag("force")


@pytest.mark.parametrize("text", ["", "1.5", "x", "1e3", "٣", "1" * 5000])
def test_what_is_no_integer_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        request(count=text).integer("count")


def test_an_integer_fits_64_bits() -> None:
    assert request(n=str(2**63 - 1)).integer("n") == 2**63 - 1
    with pytest.raises(InvalidInput, match="64 bits"):
        request(n=str(2**63)).integer("n")


@pytest.mark.parametrize("query", [b"a=%ff", b"&".join(b"a=1" for _ in range(200))])
def test_a_query_that_does_not_decode_is_malformed(query: bytes) -> None:
    with pytest.raises(Malformed):
        read_query(query)


def test_a_topic_of_a_request_is_a_persistent_one() -> None:
    asked = request(tenant="t", namespace="n", topic="x-partition-3")
    assert str(asked.topic) == "persistent://t/n/x-partition-3"
    assert asked.topic.partition == 3
    with pytest.raises(InvalidName):
        _ = request(tenant="t", namespace="..", topic="x").topic


def test_a_reply_is_json_unless_it_says_otherwise() -> None:
    assert Reply([1, {"a": None}]).encode() == b'[1,{"a":null}]'
    assert Reply("ok", content_type="text/plain").encode() == b"ok"
    assert Reply().encode() == b""
