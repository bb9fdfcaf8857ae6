from __future__ import annotations

import pytest

from anabranch.errors import Corrupt, InvalidInput
from anabranch.topics.json_fields import Fields, Json, encode_json, parse_json


def fields(**raw: Json) -> Fields:
    return Fields(dict(raw), "thing")


def test_fields_are_handed_out_by_kind() -> None:
    source = fields(n=3, t="x", f=True, r=0.5, many=[1, 2], words={"a": "b"}, inner={"n": 1})
    assert source.integer("n") == 3
    assert source.text("t") == "x"
    assert source.optional_flag("f") is True
    assert (source.optional_number("r"), source.optional_number("n")) == (0.5, 3)
    assert source.integers("many") == (1, 2)
    assert source.texts("words") == {"a": "b"}
    assert source.nested("inner").integer("n") == 1


def test_missing_and_null_are_the_same() -> None:
    source = fields(n=None)
    for name in ("n", "absent"):
        assert not source.has(name)
        assert source.optional_integer(name) is None
        assert source.integer(name, 7) == 7
        assert source.integers(name) == ()
        assert source.texts(name) == {}
        with pytest.raises(Corrupt, match=f"thing.{name}: missing"):
            source.integer(name)


@pytest.mark.parametrize("value", ["3", 3.0, True, [3], {}, 1 << 63, -(1 << 63) - 1])
def test_what_is_not_a_64_bit_integer_is_refused_with_its_place(value: Json) -> None:
    with pytest.raises(Corrupt, match=r"thing\.n: "):
        fields(n=value).integer("n")


def test_elements_are_checked_with_their_place() -> None:
    with pytest.raises(Corrupt, match=r"thing.many\[1\]: expected an integer, got 'x'"):
        fields(many=[1, "x"]).integers("many")
    with pytest.raises(Corrupt, match=r"thing.many\[0\]: expected an integer, got null"):
        fields(many=[None]).integers("many")
    with pytest.raises(Corrupt, match=r"thing.words.a: expected a string, got 1"):
        fields(words={"a": 1}).texts("words")
    with pytest.raises(Corrupt, match=r"thing.inner.n: missing"):
        fields(inner={"m": 1}).nested("inner").integer("n")


def test_other_kinds_are_refused() -> None:
    with pytest.raises(Corrupt, match=r"thing\.t: expected a string, got 1"):
        fields(t=1).text("t")
    with pytest.raises(Corrupt, match=r"thing\.f: expected true or false, got 1"):
        fields(f=1).optional_flag("f")
    with pytest.raises(Corrupt, match=r"thing\.r: expected an integer, got 'x'"):
        fields(r="x").optional_number("r")
    with pytest.raises(Corrupt, match="thing: expected an object, got 3"):
        Fields(3, "thing")


def test_rest_is_what_nobody_asked_for() -> None:
    source = fields(a=1, b=2, c=[3])
    source.integer("a")
    source.optional_text("absent")
    assert source.rest() == {"b": 2, "c": [3]}


def test_request_is_bad_input_where_a_record_is_corrupt() -> None:
    source = Fields({"inner": {"n": "x"}}, "body", InvalidInput)
    with pytest.raises(InvalidInput, match=r"body.inner.n: expected an integer"):
        source.nested("inner").integer("n")


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":NaN}', b"9" * 5000, b'{"a":-Infinity}']
)
def test_bytes_that_are_no_json_are_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match="record is not JSON"):
        parse_json(data, "record")


def test_half_a_surrogate_pair_survives() -> None:
    """JSON can escape one and UTF-8 cannot hold one."""
    data = b'{"a":"\\ud800"}'
    parsed = parse_json(data, "record")
    assert isinstance(parsed, dict)
    assert encode_json(parsed) == data


def test_long_values_are_cut_in_messages() -> None:
    with pytest.raises(Corrupt) as caught:
        fields(n="x" * 1000).integer("n")
    assert len(str(caught.value)) < 120
