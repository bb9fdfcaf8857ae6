"""Laws of reading requests and writing metrics."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from anabranch.admin.messages import Request, read_query, split_path
from anabranch.admin.metrics import Page, Sample
from anabranch.errors import InvalidInput


def page(sample: Sample) -> str:
    written = Page()
    written.add(sample)
    return written.text()


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(st.lists(texts, min_size=1))
def test_any_names_survive_a_path(names: list[str]) -> None:
    path = "".join(f"/{quote(name, safe='')}" for name in names)
    assert split_path(path.encode()) == (names, False)


@given(st.dictionaries(texts, texts, max_size=5))
def test_any_values_survive_a_query(values: dict[str, str]) -> None:
    found = read_query(urlencode(values).encode())
    assert {key: each[-1] for key, each in found.items()} == values


@given(st.binary())
def test_any_bytes_are_a_path_or_a_mistake_of_the_sender(raw: bytes) -> None:
    try:
        elements, _ = split_path(b"/" + raw)
    except InvalidInput:
        return
    assert all(isinstance(each, str) for each in elements)


@given(st.binary())
def test_any_body_is_json_or_a_mistake_of_the_sender(body: bytes) -> None:
    request = Request("PUT", {}, {}, body)
    for read in (request.json, request.properties):
        try:
            read()
        except InvalidInput:
            continue


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\x85\u2028\u2029")))
def test_any_name_survives_as_a_label(name: str) -> None:
    (family,) = text_string_to_metric_families(
        page(Sample("pulsar_rate_in", (("topic", name),), 1.0))
    )
    assert family.samples[0].labels == {"topic": name}
