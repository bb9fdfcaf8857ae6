"""The seeded world's event loop: virtual time, one thread, and an end to every wait.

When nothing is ready, time jumps to the next timer; an hour of waiting costs nothing. When there
is no timer either, the run can never go on: `Deadlock`, with the stack of every task. A run that
goes on for ever meets a bound on steps or on virtual time: `Overrun`.

Nothing here may depend on memory addresses, since sets of tasks and futures are iterated by
asyncio itself (TaskGroup, wait): both get hashes that count up.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, NoReturn, TypeVar

from tests.simulation.process import PROCESS

T = TypeVar("T")

MAX_STEPS = 2_000_000
MAX_SECONDS = 10_000_000.0


class Deadlock(AssertionError):
    """Something waits for what can no longer happen."""


class Overrun(AssertionError):
    """The run passed its bound of steps or of virtual time."""


class CountedTask(asyncio.Task[T]):
    def __init__(self, number: int, coro: Coroutine[Any, Any, T], **options: Any) -> None:
        self.number = number  # before super(): asyncio puts the task into a weak set at once
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class CountedFuture(asyncio.Future[T]):
    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self.number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimulatedLoop(asyncio.BaseEventLoop):
    # What BaseEventLoop keeps under these names on Python 3.11 to 3.13.
    _ready: Any
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool

    def __init__(self, *, max_steps: int = MAX_STEPS, max_seconds: float = MAX_SECONDS) -> None:
        super().__init__()
        self._now = 0.0
        self._numbers = 0
        self.steps = 0
        self._max_steps = max_steps
        self._max_seconds = max_seconds
        self.kernel = Context()  # of callbacks that belong to no process
        self.set_task_factory(_make_task)

    def time(self) -> float:
        return self._now

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def create_future(self) -> asyncio.Future[Any]:
        return CountedFuture(self.next_number(), self)

    def call_kernel_at(
        self, when: float, callback: Callable[..., object], *args: Any
    ) -> asyncio.TimerHandle:
        return self.call_at(when, callback, *args, context=self.kernel)

    def run_again(self, held: list[asyncio.Handle]) -> None:
        """Take back what was held for a paused process, in its order, before anything newer."""
        self._ready.extend(held)

    def call_soon_threadsafe(  # type: ignore[override]
        self, *args: Any, **kwargs: Any
    ) -> NoReturn:
        raise AssertionError("a thread spoke to the simulated loop; there is only one thread here")

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Any, *args: Any
    ) -> NoReturn:
        raise AssertionError(f"{func} was sent to a thread; the simulated world has none")

    def _run_once(self) -> None:
        self._drop_cancelled_timers()
        if not self._ready and not self._stopping:
            self._jump()
        while self._scheduled and self._scheduled[0].when() <= self._now:
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            self._ready.append(timer)
        for _ in range(len(self._ready)):
            self._run_handle(self._ready.popleft())

    def _run_handle(self, handle: asyncio.Handle) -> None:
        if handle.cancelled():
            return
        self.steps += 1
        if self.steps > self._max_steps:
            raise Overrun(f"{self.steps} steps at {self._now:.3f} s: {self._stacks()}")
        process = handle._context.get(PROCESS)  # type: ignore[attr-defined]
        if process is not None and process.paused:
            process.held.append(handle)
        else:
            handle._run()

    def _drop_cancelled_timers(self) -> None:
        while self._scheduled and self._scheduled[0].cancelled():
            heapq.heappop(self._scheduled)._scheduled = False  # type: ignore[attr-defined]

    def _jump(self) -> None:
        if not self._scheduled:
            raise Deadlock(f"nothing can happen after {self._now:.6f} s: {self._stacks()}")
        self._now = max(self._now, self._scheduled[0].when())
        if self._now > self._max_seconds:
            raise Overrun(f"virtual time reached {self._now:.0f} s: {self._stacks()}")

    def _stacks(self) -> str:
        tasks = [task for task in asyncio.all_tasks(self) if not task.done()]
        return "".join(
            f"\n{task.get_name()}:" + "".join(f"\n  {line}" for line in _frames(task.get_coro()))
            for task in sorted(tasks, key=hash)
        )

    def _write_to_self(self) -> None:
        pass

    def _process_events(self, event_list: list[Any]) -> None:
        pass


def _frames(awaited: Any) -> list[str]:
    """Where a coroutine waits, outermost first; asyncio's own stacks end at the first await."""
    lines = []
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        code = frame.f_code
        lines.append(f"{code.co_filename}:{frame.f_lineno} in {code.co_qualname}")
        awaited = awaited.cr_await
    return [*lines, f"on {awaited!r}"]


def _make_task(
    loop: asyncio.AbstractEventLoop,
    coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
    **options: Any,
) -> asyncio.Task[T]:
    assert isinstance(loop, SimulatedLoop)
    context = options.get("context")
    process = PROCESS.get() if context is None else context.get(PROCESS)
    assert isinstance(coro, Coroutine)
    task = CountedTask(loop.next_number(), coro, loop=loop, **options)
    if process is not None:
        process.adopt(task)
    return task
