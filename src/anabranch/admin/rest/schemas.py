"""Schemas of topics, by version."""

from __future__ import annotations

import json

from anabranch.admin.context import Admin
from anabranch.admin.endpoints import (
    AUTHORITATIVE,
    FORCE,
    OBJECT,
    Endpoint,
    Schema,
    get,
)
from anabranch.admin.messages import Reply, Request
from anabranch.broker.policies import EffectivePolicies
from anabranch.broker.schemas.registry import SchemaRules, live_versions
from anabranch.broker.schemas.schema_info import (
    SchemaInfo,
    SchemaType,
    parse_key_value,
    parse_schema_type,
)
from anabranch.broker.schemas.schema_record import StoredSchema
from anabranch.broker.topic_lifecycle import partition_count
from anabranch.errors import IncompatibleSchema, InvalidInput, Malformed, NotFound, Unprocessable
from anabranch.topics.json_fields import Fields, Json

PATH = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"
BODY: Schema = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"type": "string"},
        "schema": {"type": "string"},
        "properties": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


async def get_latest(admin: Admin, request: Request) -> Reply:
    return _found(request, await admin.broker.schemas.latest(request.topic))


async def get_version(admin: Admin, request: Request) -> Reply:
    version = request.integer("version")
    return _found(request, await admin.broker.schemas.get(request.topic, version))


async def get_all(admin: Admin, request: Request) -> Reply:
    history = live_versions(await admin.broker.schemas.history(request.topic))
    if not history:
        raise NotFound(f"{request.topic} has no schema")
    return Reply({"getSchemaResponses": [schema_json(each) for each in history]})


def _found(request: Request, stored: StoredSchema | None) -> Reply:
    if stored is None:
        raise NotFound(f"{request.topic} has no such schema")
    return Reply(schema_json(stored))


async def post_schema(admin: Admin, request: Request) -> Reply:
    schema = read_schema(request)
    policies = await _policies(admin, request)
    await partition_count(admin.broker, request.topic)
    try:
        version = await admin.broker.schemas.register(request.topic, schema, _rules_of(policies))
    except InvalidInput as error:
        raise Unprocessable(str(error)) from error
    return Reply(version_json(version))


async def delete_schema(admin: Admin, request: Request) -> Reply:
    if request.flag("force"):
        await admin.broker.schemas.forget(request.topic)
        return Reply(version_json(-1))
    return Reply(version_json(await admin.broker.schemas.delete(request.topic)))


async def check_compatibility(admin: Admin, request: Request) -> Reply:
    schema = read_schema(request)
    strategy = (await _policies(admin, request)).schema_strategy
    try:
        await admin.broker.schemas.check(request.topic, schema, strategy)
    except IncompatibleSchema:
        return Reply({"isCompatibility": False, "schemaCompatibilityStrategy": strategy.value})
    except InvalidInput as error:
        raise Unprocessable(str(error)) from error
    return Reply({"isCompatibility": True, "schemaCompatibilityStrategy": strategy.value})


async def find_version(admin: Admin, request: Request) -> Reply:
    schema = read_schema(request)
    try:
        version = await admin.broker.schemas.find(request.topic, schema)
    except InvalidInput as error:
        raise Unprocessable(str(error)) from error
    if version is None:
        raise NotFound(f"{request.topic} has no such schema")
    return Reply(version_json(version))


def _rules_of(policies: EffectivePolicies) -> SchemaRules:
    # An administrator may add a version where clients may not.
    return SchemaRules(policies.schema_strategy, True, policies.is_schema_enforced)


async def _policies(admin: Admin, request: Request) -> EffectivePolicies:
    return await admin.catalogue.policies_of(request.topic)


def read_schema(request: Request) -> SchemaInfo:
    """Unprocessable for a type that does not exist; the data is judged later."""
    source = Fields(request.required_json(), "schema", Malformed)
    text = source.text("schema", "")
    properties = source.texts("properties")
    try:
        kind = parse_schema_type(source.text("type"))
        return _schema_of(kind, text, properties)
    except Malformed:
        raise
    except InvalidInput as error:
        raise Unprocessable(str(error)) from error


def _schema_of(kind: SchemaType, text: str, properties: dict[str, str]) -> SchemaInfo:
    if kind is SchemaType.KEY_VALUE:
        return _key_value_of(text, properties)
    try:
        return SchemaInfo(kind, text.encode(), "", properties)
    except UnicodeEncodeError as error:
        raise Malformed(f"the schema is not valid text: {error.reason}") from None


def _key_value_of(text: str, properties: dict[str, str]) -> SchemaInfo:
    """As admin clients send it: a JSON object of the two schemas, their types in properties."""
    source = Fields(_read_json(text), "schema", InvalidInput)
    parts = {name: _part_data(source.rest().get(name)) for name in ("key", "value")}
    data = b"".join(len(each).to_bytes(4, "big") + each for each in parts.values())
    schema = SchemaInfo(SchemaType.KEY_VALUE, data, "KeyValue", properties)
    parse_key_value(schema)
    return schema


def _read_json(text: str) -> Json:
    try:
        parsed: Json = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the schema of a key and a value is not JSON: {error}") from None
    return parsed


def _part_data(raw: Json) -> bytes:
    """Of a primitive there is none."""
    if raw is None or raw == "":
        return b""
    return json.dumps(raw, separators=(",", ":")).encode()


def _shown_data(schema: SchemaInfo) -> str:
    if schema.type is not SchemaType.KEY_VALUE:
        return schema.data.decode("utf-8", "replace")
    parts = parse_key_value(schema)
    return json.dumps({"key": _part_json(parts.key.data), "value": _part_json(parts.value.data)})


def _part_json(data: bytes) -> Json:
    text = data.decode("utf-8", "replace")
    try:
        parsed: Json = json.loads(text) if text else ""
    except ValueError:
        return text
    return parsed


def schema_json(stored: StoredSchema) -> dict[str, Json]:
    schema = stored.schema
    return {
        "version": stored.version,
        "type": schema.type.value,
        "timestamp": stored.created_ms,
        "data": _shown_data(schema),
        "properties": {**schema.properties},
    }


def version_json(version: int) -> dict[str, Json]:
    return {"version": version}


ENDPOINTS: tuple[Endpoint, ...] = (
    get(f"{PATH}/schema", get_latest, "The latest schema", OBJECT, query=(AUTHORITATIVE,)),
    get(f"{PATH}/schema/{{version}}", get_version, "A version of it", OBJECT,
        query=(AUTHORITATIVE,)),
    get(f"{PATH}/schemas", get_all, "All versions", OBJECT, query=(AUTHORITATIVE,)),
    Endpoint("POST", f"{PATH}/schema", post_schema, "Register a schema", (AUTHORITATIVE,), BODY,
             True, 200, OBJECT, (404, 409, 422)),
    Endpoint("DELETE", f"{PATH}/schema", delete_schema, "End the life of all versions",
             (FORCE, AUTHORITATIVE), success=200, answer=OBJECT),
    Endpoint("POST", f"{PATH}/compatibility", check_compatibility, "May it follow?",
             (AUTHORITATIVE,), BODY, True, 200, OBJECT, (404, 422)),
    Endpoint("POST", f"{PATH}/version", find_version, "Which version is it?", (AUTHORITATIVE,),
             BODY, True, 200, OBJECT, (404, 422)),
)  # fmt: skip
