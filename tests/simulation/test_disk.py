"""The disk behind system calls: order, errors, room, locks, and machines that die in a call."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from anabranch.errors import Unavailable
from anabranch.runtime.world import Disk, World
from tests.simulation.world import SimulatedWorld, run

T = TypeVar("T")
SEEDS = range(100)


def on_a_disk(
    use: Callable[[Disk], Coroutine[Any, Any, T]],
    seed: int = 1,
    prepare: Callable[[SimulatedWorld], None] = lambda world: None,
) -> T:
    """Run `use` as the only process of a world and give back what it returned."""
    answers: list[T] = []

    async def main(world: World) -> None:
        answers.append(await use(world.disk))

    async def scenario(world: SimulatedWorld) -> None:
        prepare(world)
        await world.machine("a").spawn(main).exited()

    run(seed, scenario)
    return answers[0]


def test_a_file_reads_back_what_was_written() -> None:
    async def use(disk: Disk) -> tuple[bytes, bytes, int]:
        file = await disk.open("f", create=True)
        await file.write(3, [b"def", memoryview(b"ghi"), bytearray(b"j")])
        await file.write(0, [b"abc"])
        return await file.read(0, 100), await file.read(8, 1), await file.size()

    assert on_a_disk(use) == (b"abcdefghij", b"i", 10)


def test_directories_and_names_behave_as_those_of_the_system() -> None:
    async def use(disk: Disk) -> None:
        with pytest.raises(FileNotFoundError):
            await disk.open("d/f", create=True)
        await disk.make_directory("d/e")
        assert await disk.list_directory("d") == ["e"]
        await (await disk.open("d/f", create=True)).write(0, [b"x"])
        await disk.rename("d/f", "d/e/g")
        assert await disk.list_directory("d/e") == ["g"]
        assert await disk.list_directory("nowhere") == []
        assert [await disk.exists(path) for path in ("d", "d/e/g", "d/f")] == [True, True, False]
        await disk.remove("d/e/g")
        with pytest.raises(FileNotFoundError):
            await disk.remove("d/e/g")
        with pytest.raises(FileNotFoundError):
            await disk.open("d/e/g")

    on_a_disk(use)


def test_an_open_file_outlives_its_name() -> None:
    async def use(disk: Disk) -> bytes:
        file = await disk.open("f", create=True)
        await file.write(0, [b"still here"])
        await disk.remove("f")
        return await file.read(0, 100)

    assert on_a_disk(use) == b"still here"


def test_a_closed_file_refuses() -> None:
    async def use(disk: Disk) -> None:
        file = await disk.open("f", create=True)
        await file.close()
        with pytest.raises(OSError, match="closed"):
            await file.read(0, 1)

    on_a_disk(use)


def test_calls_finish_in_any_order_but_keep_it_on_a_file_with_its_own_thread() -> None:
    async def use(disk: Disk, own_thread: bool) -> bytes:
        file = await disk.open("f", create=True, own_thread=own_thread)
        await asyncio.gather(*(file.write(0, [bytes([n])]) for n in range(10)))
        return await file.read(0, 1)

    assert len({on_a_disk(lambda disk: use(disk, False), seed) for seed in range(20)}) > 1
    assert {on_a_disk(lambda disk: use(disk, True), seed) for seed in range(20)} == {b"\x09"}


def test_a_call_is_carried_out_though_its_caller_no_longer_waits() -> None:
    async def use(disk: Disk) -> bytes:
        file = await disk.open("f", create=True)
        writing = asyncio.create_task(file.write(0, [b"abc"]))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.sleep(1)
        return await file.read(0, 3)

    assert on_a_disk(use) == b"abc"


def test_pieces_that_change_during_a_write_are_noticed() -> None:
    async def use(disk: Disk) -> None:
        file = await disk.open("f", create=True)
        piece = bytearray(b"abc")
        writing = asyncio.create_task(file.write(0, [piece]))
        await asyncio.sleep(0)
        piece[0] = 0
        with pytest.raises(AssertionError, match="changed during the write"):
            await writing

    on_a_disk(use)


def test_a_full_disk_takes_what_fits_and_says_so() -> None:
    def make_small(world: SimulatedWorld) -> None:
        world.machine("a").disk.faults.capacity_bytes = 1000

    async def use(disk: Disk) -> None:
        file = await disk.open("f", create=True)
        await file.write(0, [bytes(900)])
        assert await disk.free_bytes() == 100
        with pytest.raises(OSError, match="No space left") as caught:
            await file.write(900, [bytes(200)])
        assert caught.value.errno == errno.ENOSPC
        assert await file.size() == 1000
        await file.write(0, [b"inside needs no room"])
        with pytest.raises(OSError, match="No space left"):
            await file.truncate(2000)
        await disk.remove("f")
        assert await disk.free_bytes() == 1000

    on_a_disk(use, prepare=make_small)


def test_the_chosen_sync_fails_once() -> None:
    def fail_second(world: SimulatedWorld) -> None:
        world.machine("a").disk.faults.fail_sync_in = 2

    async def use(disk: Disk) -> None:
        file = await disk.open("f", create=True)
        await file.write(0, [b"a"], sync=True)
        with pytest.raises(OSError, match="Input/output error"):
            await file.sync()
        await file.sync()

    on_a_disk(use, prepare=fail_second)


def test_the_chosen_write_fails_and_may_leave_a_part() -> None:
    def fail_first(world: SimulatedWorld) -> None:
        world.machine("a").disk.faults.fail_write_in = 1

    async def use(disk: Disk) -> int:
        file = await disk.open("f", create=True)
        with pytest.raises(OSError, match="Input/output error"):
            await file.write(0, [b"abcd"])
        return await file.size()

    sizes = {on_a_disk(use, seed, prepare=fail_first) for seed in SEEDS}
    assert sizes == {0, 1, 2, 3, 4}


def test_a_lock_is_held_by_one_process_until_it_lets_go_or_dies() -> None:
    async def holder(world: World) -> None:
        world.disk.lock("lock")
        await asyncio.sleep(1000)

    async def polite(world: World) -> None:
        world.disk.lock("lock").release()

    async def scenario(world: SimulatedWorld) -> None:
        machine = world.machine("a")
        first = machine.spawn(holder)
        await asyncio.sleep(1)
        with pytest.raises(Unavailable, match="held by"):
            await machine.spawn(polite).exited()
        first.die("killed")
        assert await machine.spawn(polite).exited() == "exited"
        assert await machine.spawn(polite).exited() == "exited"

    run(1, scenario)


def crash_contents(power: bool, *, sync: bool) -> set[bytes]:
    """What a file holds after its machine died in the call that overwrites it."""

    async def main(world: World) -> None:
        file = await world.disk.open("f", create=True)
        await file.write(0, [b"old-"], sync=True)
        await world.disk.sync_directory("")
        await file.write(0, [b"new-"], sync=sync)
        raise AssertionError("the machine should have died in that write")

    async def scenario(world: SimulatedWorld) -> bytes:
        machine = world.machine("a")
        machine.disk.crash_in(4, machine.power_off if power else machine.kill)
        await machine.spawn(main).exited()
        return machine.disk.namespace.find("f").read(0, 100)

    return {run(seed, scenario)[0] for seed in SEEDS}


def test_a_machine_that_dies_in_a_write_leaves_any_part_of_it() -> None:
    # A killed process leaves the page cache, where a torn write shows byte by byte.
    assert crash_contents(False, sync=False) == {b"old-", b"nld-", b"ned-", b"new-"}
    # Sectors are written whole: without power it is all or nothing, in the cache or on the disk.
    assert {b"old-", b"new-"} <= crash_contents(True, sync=True)


def test_unsynced_data_survives_a_kill_but_not_every_power_cut() -> None:
    async def main(world: World) -> None:
        file = await world.disk.open("f", create=True)
        await file.write(0, [b"data"])
        await asyncio.sleep(1000)

    def contents(seed: int, power: bool) -> bytes | None:
        async def scenario(world: SimulatedWorld) -> bytes | None:
            machine = world.machine("a")
            machine.spawn(main)
            await asyncio.sleep(1)
            (machine.power_off if power else machine.kill)()
            inode = machine.disk.namespace.names.get("f")
            return None if inode is None else inode.read(0, 4)

        return run(seed, scenario)[0]

    assert {contents(seed, power=False) for seed in SEEDS} == {b"data"}
    lost = {contents(seed, power=True) for seed in SEEDS}
    assert {None, b"", b"data", b"\0\0\0\0"} <= lost


def test_a_slow_disk_is_slow() -> None:
    async def main(world: World) -> None:
        await world.disk.open("f", create=True)

    def seconds(slowness: float) -> float:
        async def scenario(world: SimulatedWorld) -> float:
            machine = world.machine("a")
            machine.disk.faults.slowness = slowness
            await machine.spawn(main).exited()
            return world.loop.time()

        return run(1, scenario)[0]

    assert seconds(100) == pytest.approx(100 * seconds(1))
