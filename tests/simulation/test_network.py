"""Laws of the network: order within a connection, none between them, and every way to lose one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from anabranch.runtime.world import World
from tests.simulation.network import Connection
from tests.simulation.world import SimulatedWorld, run

PORT = 7000
SEEDS = range(30)


class Recorder(asyncio.Protocol):
    """Keeps what it hears, in order, as a transcript."""

    def __init__(self) -> None:
        self.received = b""
        self.pieces = 0
        self.events: list[str] = []
        self.lost = asyncio.Event()
        self.keeps_half_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        assert self.events[-1] != "lost"
        self.pieces += 1
        self.received += data

    def eof_received(self) -> bool:
        self.events.append("eof")
        return self.keeps_half_open

    def connection_lost(self, error: Exception | None) -> None:
        self.events.append(f"lost {type(error).__name__}" if error else "lost")
        self.lost.set()

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")


Client = Callable[[World, Recorder, Recorder], Coroutine[Any, Any, None]]
Meddle = Callable[[SimulatedWorld], Coroutine[Any, Any, None]]


async def no_meddling(world: SimulatedWorld) -> None:
    pass


def connected(
    client: Client, meddle: Meddle = no_meddling, *, seed: int = 1
) -> tuple[Recorder, Recorder]:
    """A server on `b`, a client on `a`; `meddle` begins a second after they have connected."""
    ends: list[Recorder] = []

    def new_end() -> Recorder:
        ends.append(Recorder())
        return ends[-1]

    async def serve(world: World) -> None:
        await world.network.listen(new_end, "0.0.0.0", PORT)
        await asyncio.sleep(500)

    async def run_client(world: World) -> None:
        await asyncio.sleep(1)
        _, mine = await world.network.connect(Recorder, "b", PORT)
        ends.append(mine)
        await asyncio.sleep(1)
        await client(world, mine, ends[0])
        await asyncio.sleep(100)

    async def scenario(world: SimulatedWorld) -> None:
        world.machine("b").spawn(serve)
        process = world.machine("a").spawn(run_client)
        await asyncio.sleep(3)
        await meddle(world)
        await process.exited()

    run(seed, scenario)
    server, mine = ends
    return mine, server


def the_connection(world: SimulatedWorld) -> Connection:
    (connection,) = world.network.connections
    return connection


def test_bytes_arrive_complete_and_in_order_in_pieces_of_any_size() -> None:
    async def send(world: World, mine: Recorder, theirs: Recorder) -> None:
        for number in range(200):
            mine.transport.write(bytes([number]) * number)
        mine.transport.close()

    expected = b"".join(bytes([number]) * number for number in range(200))
    pieces = set()
    for seed in SEEDS:
        mine, theirs = connected(send, seed=seed)
        assert theirs.received == expected
        assert mine.events == ["made", "lost"]
        assert theirs.events == ["made", "eof", "lost"]
        pieces.add(theirs.pieces)
    assert len(pieces) > 1


def test_connections_overtake_each_other() -> None:
    def order(seed: int) -> tuple[int, ...]:
        arrived: list[int] = []

        class Note(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                arrived.append(data[0])

        async def serve(world: World) -> None:
            await world.network.listen(Note, "b", PORT)
            await asyncio.sleep(100)

        async def client(world: World) -> None:
            await asyncio.sleep(1)
            network = world.network
            ends = [await network.connect(asyncio.Protocol, "b", PORT) for _ in range(4)]
            for number, (transport, _) in enumerate(ends):
                transport.write(bytes([number]))
            await asyncio.sleep(10)

        async def scenario(world: SimulatedWorld) -> tuple[int, ...]:
            world.machine("b").spawn(serve)
            await world.machine("a").spawn(client).exited()
            return tuple(arrived)

        return run(seed, scenario)[0]

    orders = {order(seed) for seed in SEEDS}
    assert len(orders) > 3
    assert {tuple(sorted(each)) for each in orders} == {(0, 1, 2, 3)}


def test_a_buffered_protocol_gets_every_byte() -> None:
    received = bytearray()

    class Buffered(asyncio.BufferedProtocol):
        def __init__(self) -> None:
            self.buffer = bytearray(7)

        def get_buffer(self, sizehint: int) -> bytearray:
            return self.buffer

        def buffer_updated(self, nbytes: int) -> None:
            received.extend(self.buffer[:nbytes])

    async def serve(world: World) -> None:
        await world.network.listen(Buffered, "localhost", PORT)
        transport, _ = await world.network.connect(asyncio.Protocol, "localhost", PORT)
        transport.write(bytes(range(256)) * 10)
        transport.close()
        await asyncio.sleep(10)

    async def scenario(world: SimulatedWorld) -> None:
        await world.machine("a").spawn(serve).exited()

    run(1, scenario)
    assert received == bytes(range(256)) * 10


def test_a_reader_that_pauses_holds_the_writer_back() -> None:
    async def send(world: World, mine: Recorder, theirs: Recorder) -> None:
        theirs.transport.pause_reading()
        for _ in range(100):
            mine.transport.write(bytes(10_000))
        await asyncio.sleep(10)
        assert not theirs.received
        assert mine.events == ["made", "pause"]
        assert mine.transport.get_write_buffer_size() > 64 * 1024
        theirs.transport.resume_reading()
        await asyncio.sleep(10)
        assert len(theirs.received) == 1_000_000
        assert mine.events == ["made", "pause", "resume"]
        assert mine.transport.get_write_buffer_size() == 0

    connected(send)


def test_the_end_of_one_direction_leaves_the_other_open() -> None:
    async def send(world: World, mine: Recorder, theirs: Recorder) -> None:
        theirs.keeps_half_open = True
        mine.transport.write(b"question")
        mine.transport.write_eof()
        await asyncio.sleep(1)
        assert theirs.events == ["made", "eof"]
        theirs.transport.write(b"answer")
        theirs.transport.close()
        await asyncio.sleep(1)
        with pytest.raises(RuntimeError, match="write_eof"):
            mine.transport.write(b"more")

    mine, theirs = connected(send)
    assert (theirs.received, mine.received) == (b"question", b"answer")
    assert mine.events == ["made", "eof", "lost"]


def test_addresses_are_those_of_the_machines() -> None:
    async def look(world: World, mine: Recorder, theirs: Recorder) -> None:
        assert mine.transport.get_extra_info("peername") == ("b", PORT)
        assert theirs.transport.get_extra_info("sockname") == ("b", PORT)
        local = mine.transport.get_extra_info("sockname")
        assert theirs.transport.get_extra_info("peername") == local

    connected(look)


def test_an_abort_resets_the_peer() -> None:
    async def abort(world: World, mine: Recorder, theirs: Recorder) -> None:
        mine.transport.abort()
        mine.transport.abort()

    mine, theirs = connected(abort)
    assert mine.events == ["made", "lost"]
    assert theirs.events == ["made", "lost ConnectionResetError"]


def test_nobody_listening_refuses_and_nobody_there_times_out() -> None:
    async def main(world: World) -> None:
        with pytest.raises(ConnectionRefusedError):
            await world.network.connect(asyncio.Protocol, "b", PORT)
        listener = await world.network.listen(asyncio.Protocol, "a", 0)
        with pytest.raises(OSError, match="in use"):
            await world.network.listen(asyncio.Protocol, "a", listener.port)
        await world.network.connect(asyncio.Protocol, listener.host, listener.port)
        await listener.close()
        with pytest.raises(ConnectionRefusedError):
            await world.network.connect(asyncio.Protocol, listener.host, listener.port)

    async def try_the_dead(world: World) -> None:
        with pytest.raises(TimeoutError):
            await world.network.connect(asyncio.Protocol, "b", PORT)

    async def scenario(world: SimulatedWorld) -> None:
        await world.machine("a").spawn(main).exited()
        world.machine("b").power_off()
        await world.machine("a").spawn(try_the_dead).exited()

    run(1, scenario)


async def send_slowly(world: World, mine: Recorder, theirs: Recorder) -> None:
    for number in range(20):
        mine.transport.write(bytes([number]) * 10)
        theirs.transport.write(bytes([number]) * 10)
        await asyncio.sleep(0.5)


SENT = b"".join(bytes([number]) * 10 for number in range(20))


def test_a_partition_delays_and_healing_delivers_in_order() -> None:
    async def part(world: SimulatedWorld) -> None:
        await asyncio.sleep(2)
        world.network.partition("a", "b")
        await asyncio.sleep(15)
        world.network.heal()

    for seed in SEEDS:
        mine, theirs = connected(send_slowly, part, seed=seed)
        assert (mine.received, theirs.received) == (SENT, SENT)
        assert mine.events == theirs.events == ["made"]


def test_a_one_way_partition_stops_one_direction_only() -> None:
    async def part(world: SimulatedWorld) -> None:
        world.network.block("a", "b")
        await asyncio.sleep(25)

    mine, theirs = connected(send_slowly, part)
    assert mine.received == SENT
    assert SENT.startswith(theirs.received)
    assert len(theirs.received) < len(SENT)


def test_a_sender_whose_bytes_wait_too_long_gives_up_and_its_peer_hears_nothing() -> None:
    async def part(world: SimulatedWorld) -> None:
        world.network.block("a", "b")

    mine, theirs = connected(send_slowly, part)
    assert mine.events == ["made", "lost TimeoutError"]
    assert theirs.events == ["made"]


def test_a_cut_delivers_some_prefix_and_resets_both_sides() -> None:
    lengths = set()

    async def burst(world: World, mine: Recorder, theirs: Recorder) -> None:
        await asyncio.sleep(0.999)
        mine.transport.write(SENT)

    async def cut(world: SimulatedWorld) -> None:
        world.network.cut(the_connection(world))

    for seed in range(100):
        mine, theirs = connected(burst, cut, seed=seed)
        assert SENT.startswith(theirs.received)
        lengths.add(len(theirs.received))
        for end in (mine, theirs):
            assert end.events == ["made", "lost ConnectionResetError"]
    assert lengths - {0, len(SENT)}, "no frame was ever cut in the middle"


def test_a_lost_connection_is_silent() -> None:
    async def lose(world: SimulatedWorld) -> None:
        world.network.lose(the_connection(world))

    async def listen_only(world: World, mine: Recorder, theirs: Recorder) -> None:
        await asyncio.sleep(5)
        theirs.transport.write(b"into the void")

    mine, theirs = connected(listen_only, lose)
    assert (mine.events, mine.received) == (["made"], b"")
    assert theirs.events == ["made", "lost TimeoutError"]


def test_the_peers_of_a_killed_process_are_told() -> None:
    async def kill(world: SimulatedWorld) -> None:
        world.machine("b").kill()

    async def wait(world: World, mine: Recorder, theirs: Recorder) -> None:
        await mine.lost.wait()

    outcomes = {tuple(connected(wait, kill, seed=seed)[0].events) for seed in SEEDS}
    assert outcomes == {("made", "eof", "lost"), ("made", "lost ConnectionResetError")}


def test_the_peers_of_a_host_without_power_hear_nothing_until_it_is_back() -> None:
    async def idle(world: World) -> None:
        await asyncio.sleep(400)

    async def cut_power(world: SimulatedWorld) -> None:
        world.machine("b").power_off()
        await asyncio.sleep(20)
        world.machine("b").spawn(idle)

    async def speak_late(world: World, mine: Recorder, theirs: Recorder) -> None:
        await asyncio.sleep(10)
        assert mine.events == ["made"]
        await asyncio.sleep(20)
        mine.transport.write(b"are you there?")
        await mine.lost.wait()

    mine, _ = connected(speak_late, cut_power)
    assert mine.events == ["made", "lost ConnectionResetError"]


def test_a_slow_link_takes_its_time() -> None:
    async def squeeze(world: SimulatedWorld) -> None:
        world.network.faults.bytes_per_second = 1000

    async def send(world: World, mine: Recorder, theirs: Recorder) -> None:
        await asyncio.sleep(5)
        mine.transport.write(bytes(20_000))
        await asyncio.sleep(10)
        assert not theirs.received
        await asyncio.sleep(15)
        assert len(theirs.received) == 20_000

    connected(send, squeeze)


def test_behind_a_cut_nothing_arrives_though_both_ends_hear_of_it_late() -> None:
    """Echo seed 106818: a paused receiver got the prefix, and then what was sent behind the gap."""

    async def keep_sending(world: World, mine: Recorder, theirs: Recorder) -> None:
        for number in range(100):
            mine.transport.write(bytes([number]) * 50)
            await asyncio.sleep(0.02)

    async def cut(world: SimulatedWorld) -> None:
        world.machine("b").pause()
        await asyncio.sleep(0.1)
        connection = the_connection(world)
        world.network.cut(connection)
        assert connection.there.sender is not None
        connection.there.sender.write(b"unaware")
        await asyncio.sleep(1)
        world.machine("b").resume()

    sent = b"".join(bytes([number]) * 50 for number in range(100))
    for seed in SEEDS:
        _, theirs = connected(keep_sending, cut, seed=seed)
        assert sent.startswith(theirs.received)
