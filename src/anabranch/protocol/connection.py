"""One connection without its socket: bytes in, events out; commands in, bytes out.

The shell around it owns a transport and does three things: it passes what arrives to `receive` (or
lets the transport write straight into `get_buffer` and then calls `buffer_updated`), handles the
events in their order, and writes what `data_to_send` returns, once, after that. Both brokers and
clients use it; only the role differs.

Promises:

- How the bytes were cut into pieces never changes the events.
- What the peer got wrong ends the connection with one `Broken` event that says why, behind the
  events of everything before it. After it nothing is read.
- Memory is bounded by the frame limit: a length is checked before a buffer of that size is made,
  and before the handshake is over the limit is a small one.
- The five data commands arrive as wire_codec's values, in runs; everything else as `Command`.

Entries of frames above 32 KB are memoryviews of a buffer of exactly that frame, into which the
transport wrote: nothing copies them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from google.protobuf.message import Message

from anabranch.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from anabranch.protocol import odd_frames, wire_codec, wire_pb2, wire_writer
from anabranch.protocol.commands import (
    Command,
    Kind,
    encode_command,
    kind_name,
    kind_of,
    parse_command,
)
from anabranch.protocol.frames import DEFAULT_MAX_MESSAGE_SIZE, frame_limit, frame_size, split_frame
from anabranch.protocol.handshake import MAY_SAY, Role, State, next_state
from anabranch.protocol.outbox import BY_REFERENCE, Outbox
from anabranch.protocol.wire_codec import Ack, Delivery, Flow, Receipt, Send
from anabranch.runtime.world import Buffer

LARGE_FRAME = 32 * 1024
SCRATCH_SIZE = 64 * 1024
# A CONNECT may carry an authentication token, but nobody needs more than this for one.
HANDSHAKE_FRAME_LIMIT = 256 * 1024
# A server that announces more than this is not believed.
LARGEST_MAX_MESSAGE_SIZE = 1 << 30


class Sends(NamedTuple):
    sends: list[Send]


class Receipts(NamedTuple):
    receipts: list[Receipt]


class Deliveries(NamedTuple):
    deliveries: list[Delivery]


class Broken(NamedTuple):
    """The last event: the peer broke the protocol. Close the transport."""

    error: RemoteProtocolError


Event: TypeAlias = Command | Sends | Receipts | Deliveries | Ack | Flow | Broken


class Connection:
    def __init__(
        self,
        role: Role,
        *,
        max_message_size: int = DEFAULT_MAX_MESSAGE_SIZE,
        scratch: bytearray | None = None,
    ) -> None:
        """`scratch` may be shared by all connections of a loop: nothing stays in it between calls.

        That holds for loops that fill a buffer between `get_buffer` and `buffer_updated` without
        letting anybody else run, as selector loops and uvloop do. A client's `max_message_size`
        is replaced by what the server announces.
        """
        self.role = role
        self.state = State.START
        self.max_message_size = max_message_size
        self.out = Outbox()
        self._may_say = MAY_SAY[role]  # while open
        self._scratch = memoryview(scratch if scratch is not None else bytearray(SCRATCH_SIZE))
        self._tail = b""  # the beginning of a frame, never more than LARGE_FRAME bytes
        self._large: memoryview | None = None  # exactly one frame, being filled
        self._large_filled = 0

    def __repr__(self) -> str:
        waiting = self._large_filled if self._large is not None else len(self._tail)
        return f"Connection({self.role.value}, {self.state.value}, {waiting} bytes waiting)"

    # -- in ------------------------------------------------------------------------------------

    def get_buffer(self, size_hint: int) -> memoryview:
        """Where the transport may write next; `buffer_updated` must follow at once."""
        if self._large is not None:
            return self._large[self._large_filled :]
        return self._scratch

    def buffer_updated(self, count: int) -> list[Event]:
        """`count` bytes were written into the last `get_buffer`."""
        if self._large is None:
            return self._read_window(b"".join((self._tail, self._scratch[:count])))
        self._large_filled += count
        events: list[Event] = []
        if self._large_filled == len(self._large):
            self._finish_large(events)
        return events

    def receive(self, data: Buffer) -> list[Event]:
        """The events of some more bytes, for transports that bring their own buffers."""
        events: list[Event] = []
        if self._large is not None:
            count = min(len(data), len(self._large) - self._large_filled)
            self.get_buffer(count)[:count] = data[:count]
            events = self.buffer_updated(count)
            data = data[count:]
        if data:
            events += self._read_window(b"".join((self._tail, data)))
        return events

    def _finish_large(self, events: list[Event]) -> None:
        frame, self._large = self._large, None
        assert frame is not None
        try:
            self._read_frame(frame, events)
        except RemoteProtocolError as error:
            self._break(error, events)

    def _read_window(self, window: bytes) -> list[Event]:
        events: list[Event] = []
        self._tail = b""
        if self.state is State.CLOSED:
            return events
        try:
            pos = self._read_frames(window, events)
            self._keep(window, pos)
        except RemoteProtocolError as error:
            self._break(error, events)
        return events

    def _break(self, error: RemoteProtocolError, events: list[Event]) -> None:
        self.state = State.CLOSED
        self._tail = b""
        self._large = None
        events.append(Broken(error))

    def _read_frames(self, window: bytes, events: list[Event]) -> int:
        """Read every whole frame; the position of the first that is not."""
        pos = 0
        while self.state is not State.CLOSED:
            pos = self._read_run(window, pos, events)
            size = frame_size(window, pos, self.frame_limit)
            if size is None or size > len(window) - pos:
                break
            if not self._read_small_command(window, pos, pos + size, events):
                self._read_frame(memoryview(window)[pos : pos + size], events)
            pos += size
        return pos

    def _keep(self, window: bytes, pos: int) -> None:
        """Keep the unfinished frame at `pos`, in a buffer of its own if it is going to be large."""
        size = frame_size(window, pos, self.frame_limit) if self.state is not State.CLOSED else None
        if size is None or size <= LARGE_FRAME:
            self._tail = window[pos:]
            return
        self._large = memoryview(bytearray(size))
        self._large_filled = len(window) - pos
        self._large[: self._large_filled] = window[pos:]

    def _read_run(self, window: bytes, pos: int, events: list[Event]) -> int:
        """The fast path: as many data frames as there are, of the kinds that come in runs."""
        if self.state is not State.OPEN:
            return pos
        if self.role is Role.SERVER:
            sends: list[Send] = []
            pos = wire_codec.scan_sends(window, pos, self.frame_limit, sends)
            if sends:
                _add_sends(events, sends)
            return pos
        receipts: list[Receipt] = []
        pos = wire_codec.scan_receipts(window, pos, self.frame_limit, receipts)
        if receipts:
            _add_receipts(events, receipts)
        deliveries: list[Delivery] = []
        pos = wire_codec.scan_deliveries(window, pos, self.frame_limit, deliveries)
        if deliveries:
            _add_deliveries(events, deliveries)
        return pos

    def _read_small_command(self, window: bytes, pos: int, end: int, events: list[Event]) -> bool:
        """The fast path for FLOW and ACK; False: neither, or odd."""
        if self.state is not State.OPEN or self.role is not Role.SERVER or end - pos < 12:
            return False
        kind = window[pos + 9]
        event: Ack | Flow | None = None
        if kind == wire_codec.ACK:
            event = wire_codec.parse_ack(window, pos, end)
        elif kind == wire_codec.FLOW:
            event = wire_codec.parse_flow(window, pos, end)
        if event is None:
            return False
        events.append(event)
        return True

    def _read_frame(self, frame: memoryview, events: list[Event]) -> None:
        data, entry = split_frame(frame)
        command = parse_command(data)
        self._advance(self.role.peer, command.kind, command.message, RemoteProtocolError)
        if len(entry) and command.kind not in (Kind.SEND, Kind.MESSAGE):
            raise RemoteProtocolError(f"{len(entry)} bytes behind a {kind_name(command.kind)}")
        _add_event(events, command, entry)

    # -- both ----------------------------------------------------------------------------------

    @property
    def frame_limit(self) -> int:
        """The largest frame either side may send now."""
        limit = frame_limit(self.max_message_size)
        return limit if self.state is State.OPEN else min(limit, HANDSHAKE_FRAME_LIMIT)

    def _advance(
        self, speaker: Role, kind: int, message: Message, error: type[ProtocolError]
    ) -> None:
        state = next_state(self.state, speaker, kind)
        if state is None:
            raise error(
                f"{kind_name(kind)} from the {speaker.value} while the connection is "
                f"{self.state.value}"
            )
        if isinstance(message, wire_pb2.CommandConnected) and message.HasField("max_message_size"):
            announced = message.max_message_size
            if not 0 < announced <= LARGEST_MAX_MESSAGE_SIZE:
                raise error(f"max_message_size {announced} announced")
            self.max_message_size = announced
        self.state = state

    # -- out -----------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Queue a command that carries no entry."""
        command = encode_command(message)
        self._advance(self.role, kind_of(message), message, LocalProtocolError)
        self.out.write_frame(command)

    def send_receipt(
        self, producer_id: int, sequence_id: int, highest_sequence_id: int, ledger: int, entry: int
    ) -> None:
        self._require_open(wire_codec.SEND_RECEIPT, 0)
        wire_writer.write_receipt(
            self.out.writer, producer_id, sequence_id, highest_sequence_id, ledger, entry
        )

    def send_receipts(self, sends: list[Send], ledger: int, first_entry: int) -> None:
        """The receipts of a run that was stored one entry behind the other."""
        self._require_open(wire_codec.SEND_RECEIPT, 0)
        wire_writer.write_receipts(self.out.writer, sends, ledger, first_entry)

    def send_deliveries(
        self,
        consumer_id: int,
        ledger: int,
        first_entry: int,
        bodies: Sequence[Buffer],
        *,
        partition: int = -1,
        consumer_epoch: int = -1,
    ) -> None:
        """Entries that lie one behind the other, each for the first time."""
        small = [body for body in bodies if isinstance(body, bytes) and len(body) < BY_REFERENCE]
        if len(small) == len(bodies):
            self._require_open(wire_codec.MESSAGE, 0)
            wire_writer.write_deliveries(
                self.out.writer,
                consumer_id,
                ledger,
                first_entry,
                partition,
                small,
                consumer_epoch,
            )
            return
        for index, body in enumerate(bodies):
            self.send_delivery(
                consumer_id,
                ledger,
                first_entry + index,
                body,
                partition=partition,
                consumer_epoch=consumer_epoch,
            )

    def send_delivery(
        self,
        consumer_id: int,
        ledger: int,
        entry: int,
        body: Buffer,
        *,
        partition: int = -1,
        redelivery_count: int = 0,
        ack_set: list[int] | None = None,
        consumer_epoch: int = -1,
    ) -> None:
        self._require_open(wire_codec.MESSAGE, len(body))
        wire_writer.write_delivery_header(
            self.out.writer,
            consumer_id,
            ledger,
            entry,
            partition,
            redelivery_count,
            ack_set,
            consumer_epoch,
            len(body),
        )
        self.out.write_entry(body)

    def send_entry(self, send: Send, body: Buffer) -> None:
        """Queue a SEND: the header that `send` describes, and the entry."""
        self._require_open(wire_codec.SEND, len(body))
        wire_writer.write_send_header(self.out.writer, send, len(body))
        self.out.write_entry(body)

    def send_flow(self, consumer_id: int, permits: int) -> None:
        self._require_open(wire_codec.FLOW, 0)
        wire_writer.write_flow(self.out.writer, consumer_id, permits)

    def send_ack(self, ack: Ack) -> None:
        self._require_open(wire_codec.ACK, 0)
        wire_writer.write_ack(self.out.writer, ack)

    def send_encoded(self, frames: bytes) -> None:
        """Queue frames that wire_codec wrote earlier: receipts that waited for a commit."""
        self._require_open(Kind.SEND_RECEIPT if self.role is Role.SERVER else Kind.SEND, 0)
        self.out.write_encoded(frames)

    def _require_open(self, kind: int, entry_size: int) -> None:
        # Twice per message on its way through a broker, so the table is asked only when it matters.
        if self.state is not State.OPEN or kind not in self._may_say:
            raise LocalProtocolError(f"{kind_name(kind)} while {self!r}")
        if entry_size > self.max_message_size and entry_size > self.frame_limit:
            raise LocalProtocolError(
                f"entry of {entry_size} bytes, the peer reads frames up to {self.frame_limit}"
            )

    @property
    def pending_bytes(self) -> int:
        """How much `data_to_send` would return."""
        return self.out.size

    def data_to_send(self) -> list[Buffer]:
        """Everything queued, in order, for one `writelines`. It is taken: write it or close."""
        return self.out.take()


def _add_event(events: list[Event], command: Command, entry: memoryview) -> None:
    match command.message:
        case wire_pb2.CommandSend():
            _add_sends(events, [odd_frames.send_of(command.message, entry)])
        case wire_pb2.CommandMessage():
            _add_deliveries(events, [odd_frames.delivery_of(command.message, entry)])
        case wire_pb2.CommandSendReceipt():
            _add_receipts(events, [odd_frames.receipt_of(command.message)])
        case wire_pb2.CommandAck():
            events.append(odd_frames.ack_of(command.message))
        case wire_pb2.CommandFlow():
            events.append(odd_frames.flow_of(command.message))
        case _:
            events.append(command)


# A run goes on where the last one stopped, so that how a frame was read does not show.


def _add_sends(events: list[Event], sends: list[Send]) -> None:
    last = events[-1] if events else None
    if isinstance(last, Sends):
        last.sends.extend(sends)
    else:
        events.append(Sends(sends))


def _add_receipts(events: list[Event], receipts: list[Receipt]) -> None:
    last = events[-1] if events else None
    if isinstance(last, Receipts):
        last.receipts.extend(receipts)
    else:
        events.append(Receipts(receipts))


def _add_deliveries(events: list[Event], deliveries: list[Delivery]) -> None:
    last = events[-1] if events else None
    if isinstance(last, Deliveries):
        last.deliveries.extend(deliveries)
    else:
        events.append(Deliveries(deliveries))
