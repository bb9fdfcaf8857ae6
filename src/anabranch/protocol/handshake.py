"""Who may say what, when: the conversation of one connection as a table.

A client opens with CONNECT. The server answers CONNECTED, perhaps after challenges, or ERROR, which
ends it. Only then does either side say anything else, each only what its role has to say. Both
peers keep the same state, because both see the same commands; whoever says what the table does not
have is the one at fault.
"""

from __future__ import annotations

from enum import Enum

from anabranch.protocol.commands import FIELD_OF_KIND, Kind


class Role(Enum):
    CLIENT = "client"
    SERVER = "server"

    @property
    def peer(self) -> Role:
        return Role.SERVER if self is Role.CLIENT else Role.CLIENT


class State(Enum):
    START = "start"  # nothing was said
    CONNECTING = "connecting"  # the client introduced itself
    OPEN = "open"
    CLOSED = "closed"


_BOTH = {Kind.PING, Kind.PONG, Kind.CLOSE_PRODUCER, Kind.CLOSE_CONSUMER}
_SERVER = {
    Kind.SEND_RECEIPT,
    Kind.SEND_ERROR,
    Kind.MESSAGE,
    Kind.SUCCESS,
    Kind.ERROR,
    Kind.PRODUCER_SUCCESS,
    Kind.PARTITIONED_METADATA_RESPONSE,
    Kind.LOOKUP_RESPONSE,
    Kind.CONSUMER_STATS_RESPONSE,
    Kind.REACHED_END_OF_TOPIC,
    Kind.GET_LAST_MESSAGE_ID_RESPONSE,
    Kind.ACTIVE_CONSUMER_CHANGE,
    Kind.GET_TOPICS_OF_NAMESPACE_RESPONSE,
    Kind.GET_SCHEMA_RESPONSE,
    Kind.AUTH_CHALLENGE,
    Kind.ACK_RESPONSE,
    Kind.GET_OR_CREATE_SCHEMA_RESPONSE,
    Kind.NEW_TXN_RESPONSE,
    Kind.ADD_PARTITION_TO_TXN_RESPONSE,
    Kind.ADD_SUBSCRIPTION_TO_TXN_RESPONSE,
    Kind.END_TXN_RESPONSE,
    Kind.END_TXN_ON_PARTITION_RESPONSE,
    Kind.END_TXN_ON_SUBSCRIPTION_RESPONSE,
    Kind.TC_CLIENT_CONNECT_RESPONSE,
    Kind.WATCH_TOPIC_LIST_SUCCESS,
    Kind.WATCH_TOPIC_UPDATE,
    Kind.TOPIC_MIGRATED,
    Kind.SCALABLE_TOPIC_UPDATE,
    Kind.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE,
    Kind.SCALABLE_TOPIC_ASSIGNMENT_UPDATE,
    Kind.WATCH_SCALABLE_TOPICS_UPDATE,
    Kind.WATCH_TC_ASSIGNMENTS_UPDATE,
}
_OPENING = {Kind.CONNECT, Kind.CONNECTED}
MAY_SAY: dict[Role, frozenset[int]] = {
    Role.SERVER: frozenset(_SERVER | _BOTH),
    Role.CLIENT: frozenset(set(FIELD_OF_KIND) - _SERVER - _OPENING),
}

TRANSITIONS: dict[tuple[State, Role, int], State] = {
    (State.START, Role.CLIENT, Kind.CONNECT): State.CONNECTING,
    (State.CONNECTING, Role.SERVER, Kind.AUTH_CHALLENGE): State.CONNECTING,
    (State.CONNECTING, Role.CLIENT, Kind.AUTH_RESPONSE): State.CONNECTING,
    (State.CONNECTING, Role.SERVER, Kind.CONNECTED): State.OPEN,
    (State.CONNECTING, Role.SERVER, Kind.ERROR): State.CLOSED,
    **{(State.OPEN, role, kind): State.OPEN for role, kinds in MAY_SAY.items() for kind in kinds},
}


def next_state(state: State, speaker: Role, kind: int) -> State | None:
    """The state after `speaker` said this; None: it may not be said now."""
    return TRANSITIONS.get((state, speaker, kind))
