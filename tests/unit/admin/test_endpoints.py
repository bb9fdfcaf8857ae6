"""Requests find the endpoint that was meant."""

from __future__ import annotations

import pytest

from anabranch.admin.api import ENDPOINTS
from anabranch.admin.context import Admin
from anabranch.admin.endpoints import Endpoint, Router, bind
from anabranch.admin.messages import NO_CONTENT, Reply, Request


async def nothing(admin: Admin, request: Request) -> Reply:
    return NO_CONTENT


def endpoint(method: str, path: str) -> Endpoint:
    return Endpoint(method, path, nothing, "")


ROUTER = Router(
    [
        endpoint("GET", "/brokers/{cluster}"),
        endpoint("GET", "/brokers/health"),
        endpoint("GET", "/t/{namespace}/partitioned"),
        endpoint("PUT", "/t/{namespace}/{topic}"),
        endpoint("GET", "/t/{namespace}/{topic}"),
    ]
)


def found(method: str, *elements: str) -> tuple[str, dict[str, str]]:
    result = ROUTER.find(method, elements)
    assert not isinstance(result, list), result
    return result[0].path, result[1]


def test_a_literal_wins_over_a_name() -> None:
    assert found("GET", "brokers", "health") == ("/brokers/health", {})
    assert found("GET", "brokers", "east") == ("/brokers/{cluster}", {"cluster": "east"})


def test_a_literal_without_the_method_leaves_room_for_a_name() -> None:
    assert found("PUT", "t", "n", "partitioned") == (
        "/t/{namespace}/{topic}",
        {"namespace": "n", "topic": "partitioned"},
    )
    assert found("GET", "t", "n", "partitioned")[0] == "/t/{namespace}/partitioned"


def test_head_is_answered_where_get_is() -> None:
    assert found("HEAD", "brokers", "health")[0] == "/brokers/health"


def test_a_path_without_the_method_says_which_it_has() -> None:
    assert ROUTER.find("DELETE", ["t", "n", "x"]) == ["GET", "PUT"]
    assert ROUTER.find("GET", ["t"]) == []


def test_names_are_bound_to_what_stands_there() -> None:
    assert bind(["a", "{b}"], ["a", "x"]) == {"b": "x"}
    assert bind(["a", "{b}"], ["c", "x"]) is None


def test_no_two_endpoints_have_the_same_method_and_path() -> None:
    keys = [(each.method, each.path) for each in ENDPOINTS]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("each", ENDPOINTS, ids=lambda each: f"{each.method} {each.path}")
def test_every_endpoint_is_found_under_its_own_path(each: Endpoint) -> None:
    elements = [part.strip("{}") if part.startswith("{") else part for part in each.elements]
    result = Router(ENDPOINTS).find(each.method, elements)
    assert not isinstance(result, list)
    assert result[0] is each
