"""A process of the simulated world, and the rule that the dead do nothing.

Tasks and callbacks belong to the process in whose context they were made; a context variable
carries it, so the code under test need not know. After death every call to the disk, the network
or a lock raises CancelledError, and the remaining tasks are cancelled: their cleanup code runs,
but nothing it does can reach the world. A paused process (SIGSTOP) runs nothing at all; what
becomes due meanwhile is held, and runs when it resumes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any

PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class Process:
    def __init__(
        self, name: str, run_again: Callable[[list[asyncio.Handle]], None] = lambda held: None
    ) -> None:
        self.name = name
        self._run_again = run_again
        self.alive = True
        self.paused = False
        self.fate = "running"
        self.held: list[asyncio.Handle] = []
        self.tasks: dict[asyncio.Task[Any], None] = {}
        # What the operating system does when the process is gone: frees locks, closes sockets,
        # decides what became of calls under way. Filled by the disk and the network.
        self.at_death: list[Callable[[], None]] = []
        self.main: asyncio.Task[Any] | None = None
        self.is_awaited = False  # somebody will get the error of `main`, if it ends in one
        self.context = Context()
        self.context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<Process {self.name} {self.fate}>"

    def check(self) -> None:
        if not self.alive:
            raise asyncio.CancelledError(f"{self.name} is dead")

    def adopt(self, task: asyncio.Task[Any]) -> None:
        if not self.alive:
            task.cancel()
        self.tasks[task] = None
        task.add_done_callback(self._forget, context=Context())

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)

    def die(self, fate: str) -> None:
        """Dead first, then told so: no step of the cleanup may find itself alive."""
        if not self.alive:
            return
        self.alive = False
        self.fate = fate
        for release in self.at_death:
            release()
        self.at_death.clear()
        self.resume()
        for task in list(self.tasks):
            force_cancel(task)

    def pause(self) -> None:
        self.paused = self.alive

    def resume(self) -> None:
        self.paused = False
        held, self.held = self.held, []
        self._run_again(held)

    async def exited(self) -> str:
        """Wait until it is gone, whichever way; an error of its main function is raised here."""
        assert self.main is not None
        self.is_awaited = True
        await asyncio.wait([self.main])
        if not self.main.cancelled() and (error := self.main.exception()) is not None:
            raise error
        return self.fate


def force_cancel(task: asyncio.Task[Any]) -> None:
    """Cancel it even if it waits on a future that refuses: death asks nobody."""
    task.cancel()
    waits_on = task._fut_waiter  # type: ignore[attr-defined]
    if task._must_cancel and waits_on is not None:  # type: ignore[attr-defined]
        asyncio.Future.cancel(waits_on)
