from __future__ import annotations

import pytest

from anabranch.protocol.commands import FIELD_OF_KIND, Kind
from anabranch.protocol.handshake import MAY_SAY, Role, State, next_state

ROLES = [Role.CLIENT, Role.SERVER]


def test_only_a_clients_connect_begins_a_conversation() -> None:
    said = {(role, kind) for role in ROLES for kind in FIELD_OF_KIND}
    allowed = {(role, kind) for role, kind in said if next_state(State.START, role, kind)}
    assert allowed == {(Role.CLIENT, Kind.CONNECT)}


def test_before_connected_only_the_handshake_may_be_spoken() -> None:
    allowed = {
        (role, kind): next_state(State.CONNECTING, role, kind)
        for role in ROLES
        for kind in FIELD_OF_KIND
        if next_state(State.CONNECTING, role, kind)
    }
    assert allowed == {
        (Role.SERVER, Kind.CONNECTED): State.OPEN,
        (Role.SERVER, Kind.AUTH_CHALLENGE): State.CONNECTING,
        (Role.CLIENT, Kind.AUTH_RESPONSE): State.CONNECTING,
        (Role.SERVER, Kind.ERROR): State.CLOSED,
    }


@pytest.mark.parametrize("role", ROLES)
def test_nothing_may_be_said_after_the_end(role: Role) -> None:
    assert not any(next_state(State.CLOSED, role, kind) for kind in FIELD_OF_KIND)


@pytest.mark.parametrize("role", ROLES)
def test_an_open_connection_stays_open_and_is_not_opened_twice(role: Role) -> None:
    assert next_state(State.OPEN, role, Kind.CONNECT) is None
    assert next_state(State.OPEN, role, Kind.CONNECTED) is None
    assert {next_state(State.OPEN, role, kind) for kind in MAY_SAY[role]} == {State.OPEN}


def test_every_command_can_be_said_by_somebody() -> None:
    everything = MAY_SAY[Role.CLIENT] | MAY_SAY[Role.SERVER]
    assert everything | {Kind.CONNECT, Kind.CONNECTED} == set(FIELD_OF_KIND)


def test_only_what_either_side_may_start_is_said_by_both() -> None:
    assert MAY_SAY[Role.CLIENT] & MAY_SAY[Role.SERVER] == {
        Kind.PING,
        Kind.PONG,
        Kind.CLOSE_PRODUCER,
        Kind.CLOSE_CONSUMER,
    }


def test_answers_come_from_servers() -> None:
    for kind in FIELD_OF_KIND:
        if Kind.Name(kind).endswith("_RESPONSE") and kind != Kind.AUTH_RESPONSE:
            assert kind in MAY_SAY[Role.SERVER], Kind.Name(kind)
            assert kind not in MAY_SAY[Role.CLIENT], Kind.Name(kind)
