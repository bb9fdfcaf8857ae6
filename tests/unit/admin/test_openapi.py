"""The description is whole, and true of the endpoints."""

from __future__ import annotations

import json
from typing import Any

from anabranch.admin.api import ENDPOINTS
from anabranch.admin.openapi import DOCS_PAGE, describe
from tests.admin_world import AdminWorld, play


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in describe(ENDPOINTS)["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_endpoint_is_described() -> None:
    assert len(operations()) == len(ENDPOINTS)


def test_every_name_of_a_path_is_a_parameter() -> None:
    for path, _, operation in operations():
        names = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
        assert names == {part[1:-1] for part in path.split("/") if part.startswith("{")}


def test_operations_have_ids_of_their_own() -> None:
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len(ids) == len(set(ids))
    assert all(each.isidentifier() for each in ids)


def test_the_description_and_its_page_are_served_without_help_from_elsewhere() -> None:
    async def scenario(world: AdminWorld) -> None:
        assert (await world.ask("//openapi.json"))["openapi"].startswith("3.")
        page = (await world.call("GET", "//docs")).text
        assert page == DOCS_PAGE

    play(scenario)
    assert "//" not in DOCS_PAGE.replace("<!doctype", "")


def test_the_description_is_json() -> None:
    assert json.loads(json.dumps(describe(ENDPOINTS))) == describe(ENDPOINTS)
