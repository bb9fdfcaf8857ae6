"""Schemas over REST."""

from __future__ import annotations

import json
from typing import Any

from tests.admin_world import SPACE, AdminWorld, play

X = f"/schemas/{SPACE}/x"


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


A = {"name": "a", "type": "string"}
B = {"name": "b", "type": ["null", "string"], "default": None}
C = {"name": "c", "type": "string"}


def body(schema: Any, kind: str = "JSON") -> dict[str, Any]:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return {"type": kind, "schema": text, "properties": {"owner": "me"}}


async def post(world: AdminWorld, path: str, value: Any) -> Any:
    reply = await world.call("POST", f"{X}/{path}", json=value)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_versions_are_registered_read_and_ended() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(1)
        await world.refused(404, "GET", f"{X}/schema")
        assert await post(world, "schema", body(record(A))) == {"version": 0}
        assert await post(world, "schema", body(record(A))) == {"version": 0}
        assert await post(world, "schema", body(record(A, B))) == {"version": 1}
        latest = await world.ask(f"{X}/schema")
        assert (latest["version"], latest["type"]) == (1, "JSON")
        assert json.loads(latest["data"]) == record(A, B)
        assert latest["properties"] == {"owner": "me"}
        assert (await world.ask(f"{X}/schema/0"))["version"] == 0
        everything = (await world.ask(f"{X}/schemas"))["getSchemaResponses"]
        assert [each["version"] for each in everything] == [0, 1]
        assert (await world.call("DELETE", f"{X}/schema")).json() == {"version": 2}
        await world.refused(404, "GET", f"{X}/schema")
        await world.refused(404, "DELETE", f"{X}/schema")

    play(scenario)


def test_what_may_not_follow_is_refused_and_can_be_asked_first() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(1)
        await post(world, "schema", body(record(A)))
        await world.refused(409, "POST", f"{X}/schema", body(record(C)))
        answer = await post(world, "compatibility", body(record(C)))
        assert answer == {"isCompatibility": False, "schemaCompatibilityStrategy": "FULL"}
        assert (await post(world, "compatibility", body(record(A, B))))["isCompatibility"]
        assert await post(world, "version", body(record(A))) == {"version": 0}
        await world.refused(404, "POST", f"{X}/version", body(record(C)))

    play(scenario)


def test_an_administrator_may_add_a_version_where_clients_may_not() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(1)
        await world.done("POST", f"/namespaces/{SPACE}/isAllowAutoUpdateSchema", False)
        assert await post(world, "schema", body(record(A))) == {"version": 0}

    play(scenario)


def test_what_is_wrong_with_a_schema_has_a_status_of_its_own() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.refused(404, "POST", f"{X}/schema", body(record(A)))
        await world.publish(1)
        await world.refused(422, "POST", f"{X}/schema", body("{", "AVRO"))
        await world.refused(422, "POST", f"{X}/schema", body("", "MARTIAN"))
        await world.refused(422, "POST", f"{X}/schema", body("", "AUTO_CONSUME"))
        await world.refused(422, "POST", f"{X}/schema", body("nonsense", "KEY_VALUE"))
        await world.refused(400, "POST", f"{X}/schema", {"schema": "x"})
        await world.refused(400, "POST", f"{X}/schema", {"type": 3})
        await world.refused(400, "POST", f"{X}/schema")
        await world.refused(400, "GET", f"{X}/schema/one")
        await world.refused(404, "GET", f"{X}/schema/7")
        await world.refused(404, "GET", f"{X}/schema/-1")

    play(scenario)


def test_a_key_value_schema_is_two_schemas() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(1)
        whole = {
            "type": "KEY_VALUE",
            "schema": json.dumps({"key": "", "value": record(A)}),
            "properties": {
                "key.schema.type": "STRING",
                "value.schema.type": "JSON",
                "kv.encoding.type": "SEPARATED",
            },
        }
        assert await post(world, "schema", whole) == {"version": 0}
        found = json.loads((await world.ask(f"{X}/schema"))["data"])
        assert found == {"key": "", "value": record(A)}

    play(scenario)


def test_schemas_go_with_their_topic() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.publish(1)
        await post(world, "schema", body(record(A)))
        await world.done("DELETE", f"/persistent/{SPACE}/x")
        await world.publish(1)
        assert await post(world, "schema", body(record(C))) == {"version": 0}
        await world.call("DELETE", f"{X}/schema?force=true")
        assert await post(world, "schema", body(record(A))) == {"version": 0}

    play(scenario)
