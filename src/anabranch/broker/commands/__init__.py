"""What the broker does for each command of a client, a file for each subject."""

from __future__ import annotations

from google.protobuf.message import Message

from anabranch.broker.commands import connect, consume, lookup, produce, schema, topic_lists
from anabranch.broker.session import Handler

HANDLERS: dict[type[Message], Handler] = {
    **connect.HANDLERS,
    **lookup.HANDLERS,
    **produce.HANDLERS,
    **consume.HANDLERS,
    **schema.HANDLERS,
    **topic_lists.HANDLERS,
}
