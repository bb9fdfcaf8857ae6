"""Keeping so many frames in flight, for a while, over a few connections.

One loop, no event framework: what the generator does not spend, the server can. A connection that
takes no more bytes for now is left until it does; frames go out straight from the row they lie in.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.peers.channel import Failed, Publisher

STALL_SECONDS = 30.0


@dataclass
class Outcome:
    """What was acknowledged in the measured time. Latencies come with how many frames had them."""

    seconds: float = 0.0
    frames: int = 0
    latencies: list[tuple[float, int]] = field(default_factory=list)


class Lane:
    """One connection, and the frames it has in flight."""

    def __init__(self, publisher: Publisher, window: int) -> None:
        self.channel = publisher.channel
        self.window = window
        self.is_blocked = False
        self._row = memoryview(publisher.frames.row)
        self._frame_bytes = publisher.frames.frame_bytes
        self._position = 0  # in the row, of the next byte to send
        self._due = 0  # bytes that may be sent
        self._in_flight: deque[list[float]] = deque()  # [since when, how many]

    def allow(self, frames: int) -> None:
        self._due += frames * self._frame_bytes
        self._in_flight.append([time.perf_counter(), frames])
        self.push()

    def push(self) -> None:
        """Send what may be sent, until the socket takes no more."""
        self.is_blocked = False
        while self._due:
            end = min(self._position + self._due, len(self._row))
            try:
                sent = self.channel.socket.send(
                    self._row[self._position : end], socket.MSG_DONTWAIT
                )
            except BlockingIOError:
                self.is_blocked = True
                return
            self._due -= sent
            self._position = (self._position + sent) % len(self._row)

    def pull(self, latencies: list[tuple[float, int]]) -> int:
        """Frames acknowledged by what has arrived."""
        count = self.channel.socket.recv_into(self.channel.get_buffer())
        if count == 0:
            raise Failed("the server closed the connection")
        acks = left = self.channel.received(count)
        now = time.perf_counter()
        while left:
            since, frames = self._in_flight[0]
            landed = min(left, int(frames))
            latencies.append((now - since, landed))
            left -= landed
            if landed == frames:
                self._in_flight.popleft()
            else:
                self._in_flight[0][1] -= landed
        return acks


class Pump:
    """Drives the lanes. `at_edge` is called when the measured time begins, and when it ends."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = {lane.channel.socket.fileno(): lane for lane in lanes}
        self._poll = select.epoll()
        for number in self._lanes:
            self._poll.register(number, select.EPOLLIN)

    def run(self, warm: float, seconds: float, at_edge: Callable[[], None]) -> Outcome:
        for number, lane in self._lanes.items():
            lane.allow(lane.window)
            self._watch(number, lane)
        self._run_until(time.perf_counter() + warm, Outcome())
        outcome = Outcome()
        at_edge()
        start = time.perf_counter()
        self._run_until(start + seconds, outcome)
        outcome.seconds = time.perf_counter() - start
        at_edge()
        return outcome

    def _run_until(self, deadline: float, outcome: Outcome) -> None:
        while time.perf_counter() < deadline:
            ready = self._poll.poll(STALL_SECONDS)
            if not ready:
                raise Failed(f"no answer for {STALL_SECONDS:.0f} s")
            for number, events in ready:
                lane = self._lanes[number]
                was_blocked = lane.is_blocked
                if events & ~select.EPOLLOUT:
                    acks = lane.pull(outcome.latencies)
                    outcome.frames += acks
                    if acks:
                        lane.allow(acks)
                elif was_blocked:
                    lane.push()
                if lane.is_blocked != was_blocked:
                    self._watch(number, lane)

    def _watch(self, number: int, lane: Lane) -> None:
        self._poll.modify(number, select.EPOLLIN | select.EPOLLOUT * lane.is_blocked)


def publish_for(
    publishers: Sequence[Publisher],
    window: int,
    warm: float,
    seconds: float,
    at_edge: Callable[[], None],
) -> Outcome:
    """`window` frames in flight altogether, spread evenly over the publishers' connections."""
    share = max(1, window // len(publishers))
    return Pump([Lane(each, share) for each in publishers]).run(warm, seconds, at_edge)


def publish_count(publisher: Publisher, frames: int, window: int) -> None:
    """Exactly so many frames, and all acknowledged."""
    lane, left = Lane(publisher, window), frames
    in_flight = min(window, left)
    lane.allow(in_flight)
    left -= in_flight
    while in_flight:
        poll = select.POLLIN | select.POLLOUT * lane.is_blocked
        waiting = select.poll()
        waiting.register(lane.channel.socket, poll)
        for _, events in waiting.poll(STALL_SECONDS * 1000):
            if events & select.POLLOUT:
                lane.push()
            if events & select.POLLIN:
                acks = lane.pull([])
                more = min(acks, left)
                left -= more
                in_flight += more - acks
                if more:
                    lane.allow(more)
