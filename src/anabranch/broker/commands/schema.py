"""Schemas by their version, and new ones."""

from __future__ import annotations

from google.protobuf.message import Message

from anabranch.broker.commands.produce import rules_of
from anabranch.broker.schemas.schema_info import encode_version, parse_version
from anabranch.broker.schemas.wire_form import schema_from_wire, schema_to_wire
from anabranch.broker.session import Handler, Session
from anabranch.broker.wire_errors import code_of
from anabranch.errors import AnabranchError, IncompatibleSchema, TopicNotFound
from anabranch.protocol import wire_pb2
from anabranch.topics.names import parse_topic_name


async def get_schema(session: Session, command: wire_pb2.CommandGetSchema) -> None:
    answer = wire_pb2.CommandGetSchemaResponse(request_id=command.request_id)
    try:
        name = parse_topic_name(command.topic)
        registry = session.broker.schemas
        if command.HasField("schema_version"):
            if not command.schema_version:
                raise IncompatibleSchema("an empty schema version names none")
            found = await registry.get(name, parse_version(command.schema_version))
        else:
            found = await registry.latest(name)
        if found is None:
            raise TopicNotFound(f"{name} has no such schema")
        answer.schema.CopyFrom(schema_to_wire(found.schema))
        answer.schema_version = encode_version(found.version)
    except AnabranchError as error:
        answer.error_code, answer.error_message = code_of(error), str(error)
    session.send(answer)


async def get_or_create_schema(
    session: Session, command: wire_pb2.CommandGetOrCreateSchema
) -> None:
    answer = wire_pb2.CommandGetOrCreateSchemaResponse(request_id=command.request_id)
    try:
        name = parse_topic_name(command.topic)
        topic = await session.broker.catalogue.open_topic(name, may_create=False)
        schema = schema_from_wire(command.schema)
        version = await session.broker.schemas.register(topic.name, schema, rules_of(topic))
        answer.schema_version = encode_version(version)
    except AnabranchError as error:
        answer.error_code, answer.error_message = code_of(error), str(error)
    session.send(answer)


HANDLERS: dict[type[Message], Handler] = {
    wire_pb2.CommandGetSchema: get_schema,
    wire_pb2.CommandGetOrCreateSchema: get_or_create_schema,
}
