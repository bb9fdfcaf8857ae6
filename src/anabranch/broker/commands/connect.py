"""The handshake, and signs of life."""

from __future__ import annotations

from google.protobuf.message import Message

import anabranch
from anabranch.broker.session import NO_REQUEST, Handler, Session
from anabranch.protocol import wire_pb2

PROTOCOL_VERSION = 21
# Clients read the version behind these words; the C++ client refuses a server without one.
SERVER_VERSION = f"Pulsar Server4.0.0-anabranch-{anabranch.__version__}"


def connect(session: Session, command: wire_pb2.CommandConnect) -> None:
    if session.refusal:
        session.connection.send(
            wire_pb2.CommandError(
                request_id=NO_REQUEST,
                error=wire_pb2.ServerError.NotAllowedError,
                message=session.refusal,
            )
        )
        session.abort(session.refusal)
        return
    session.protocol_version = min(PROTOCOL_VERSION, command.protocol_version)
    session.client_version = command.client_version
    answer = wire_pb2.CommandConnected(
        server_version=SERVER_VERSION,
        protocol_version=session.protocol_version,
        max_message_size=session.broker.config.max_message_bytes,
    )
    flags = answer.feature_flags
    flags.supports_topic_watchers = True
    flags.supports_get_partitioned_metadata_without_auto_creation = True
    flags.supports_topic_watcher_reconcile = True
    session.connection.send(answer)


def ping(session: Session, command: wire_pb2.CommandPing) -> None:
    session.send(wire_pb2.CommandPong())


def pong(session: Session, command: wire_pb2.CommandPong) -> None:
    session.heard_pong()


HANDLERS: dict[type[Message], Handler] = {
    wire_pb2.CommandConnect: connect,
    wire_pb2.CommandPing: ping,
    wire_pb2.CommandPong: pong,
}
