"""Where a topic is served, and how many partitions it has."""

from __future__ import annotations

from google.protobuf.message import Message

from anabranch.broker.session import Handler, Session
from anabranch.broker.wire_errors import code_of
from anabranch.errors import AnabranchError, NotAllowed
from anabranch.protocol import wire_pb2
from anabranch.topics.names import parse_topic_name

Found = wire_pb2.CommandLookupTopicResponse
Partitions = wire_pb2.CommandPartitionedTopicMetadataResponse


def lookup(session: Session, command: wire_pb2.CommandLookupTopic) -> None:
    answer = Found(request_id=command.request_id, authoritative=True)
    try:
        parse_topic_name(command.topic)
        if command.advertised_listener_name:
            raise NotAllowed(
                f"there is no listener {command.advertised_listener_name!r}; name none"
            )
        answer.response = Found.Connect
        answer.brokerServiceUrl = session.broker.service_url
    except AnabranchError as error:
        answer.response = Found.Failed
        answer.error, answer.message = code_of(error), str(error)
    session.send(answer)


async def partitioned_metadata(
    session: Session, command: wire_pb2.CommandPartitionedTopicMetadata
) -> None:
    answer = Partitions(request_id=command.request_id)
    try:
        name = parse_topic_name(command.topic)
        answer.partitions = await session.broker.catalogue.partitions_of(
            name, may_create=command.metadata_auto_creation_enabled
        )
        answer.response = Partitions.Success
    except AnabranchError as error:
        answer.response = Partitions.Failed
        answer.error, answer.message = code_of(error), str(error)
    session.send(answer)


HANDLERS: dict[type[Message], Handler] = {
    wire_pb2.CommandLookupTopic: lookup,
    wire_pb2.CommandPartitionedTopicMetadata: partitioned_metadata,
}
