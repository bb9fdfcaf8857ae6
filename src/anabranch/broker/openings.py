"""Producers and consumers that are being opened, which takes a while and happens once.

A client may close what is not open yet: it lost patience, or changed its mind. The opening is then
given up wherever it stands, even if it has not begun.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

from anabranch.errors import NotReady

Key = tuple[str, int]  # what it is, and the client's number for it


class Openings:
    def __init__(self) -> None:
        self._under_way: dict[Key, Opening] = {}

    def begin(self, kind: str, number: int) -> Opening:
        """From here on it counts; enter it when the work begins."""
        if (kind, number) in self._under_way:
            raise NotReady(f"{kind} {number} is being opened already")
        opening = self._under_way[kind, number] = Opening(self, (kind, number))
        return opening

    def give_up(self, kind: str, number: int) -> None:
        opening = self._under_way.pop((kind, number), None)
        if opening is not None:
            opening.give_up()

    def end(self, opening: Opening) -> None:
        if self._under_way.get(opening.key) is opening:
            del self._under_way[opening.key]


class Opening:
    def __init__(self, openings: Openings, key: Key) -> None:
        self.key = key
        self._openings = openings
        self._task: asyncio.Task[Any] | None = None
        self._is_given_up = False

    def give_up(self) -> None:
        self._is_given_up = True
        if self._task is not None:
            self._task.cancel()

    def __enter__(self) -> None:
        if self._is_given_up:
            raise asyncio.CancelledError
        self._task = asyncio.current_task()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._openings.end(self)
