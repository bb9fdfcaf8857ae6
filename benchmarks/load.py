"""The load generator: one job against one server, in a process of its own.

    python -m benchmarks.load JOB

JOB is a `Job` as JSON, the answer is figures as JSON. The generator prepares all frames before the
clock starts, and the server's CPU time is read from the kernel when it starts and when it stops.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from benchmarks.peers.anabranch_driver import Anabranch
from benchmarks.peers.bare_driver import Bare
from benchmarks.peers.channel import Failed, Publisher, System, read_all, receive
from benchmarks.peers.nats_driver import Nats
from benchmarks.peers.process import Usage, usage_of
from benchmarks.peers.redis_driver import Redis
from benchmarks.peers.window import publish_count, publish_for

SYSTEMS: dict[str, Callable[[str], System]] = {
    "anabranch": Anabranch,
    "nats": Nats,
    "redis": Redis,
    "bare": Bare,
}
TAIL_RATE = 500

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Job:
    system: str
    address: str
    pid: int  # of the server
    name: str  # topics are called after it
    kind: Literal["publish", "fill", "read", "tail"] = "publish"
    size: int = 1024
    per_entry: int = 1
    window: int = 1000  # entries in flight
    topics: int = 1
    connections: int = 1
    warm: float = 0.5
    seconds: float = 2.0
    messages: int = 0  # of fills and reads

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Meter:
    """The server's CPU time between the edges, summed over every stretch that was measured."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._start: Usage | None = None
        self.cpu_seconds = 0.0

    def edge(self) -> None:
        now = usage_of(self._pid)
        if self._start is None:
            self._start = now
        else:
            self.cpu_seconds += now.cpu_seconds - self._start.cpu_seconds
            self._start = None


def run(job: Job) -> Figures:
    system = SYSTEMS[job.system](job.address)
    match job.kind:
        case "publish":
            return publish(system, job)
        case "fill":
            return fill(system, job)
        case "read":
            return read(system, job)
        case "tail":
            return tail(system, job)


def topics_of(job: Job) -> list[str]:
    return [f"{job.name}-{number}" for number in range(job.topics)]


def publish(system: System, job: Job) -> Figures:
    meter = Meter(job.pid)
    publishers = _publishers(system, job)
    generator = time.process_time()
    outcome = publish_for(publishers, job.window, job.warm, job.seconds, meter.edge)
    figures = _rates(job, outcome.frames * job.per_entry, outcome.seconds, meter.cpu_seconds)
    figures["generator CPU share"] = (time.process_time() - generator) / (
        job.warm + outcome.seconds
    )
    return figures | percentiles(outcome.latencies)


def _publishers(system: System, job: Job) -> list[Publisher]:
    """The topics dealt out over the connections; every connection has at least one."""
    topics = topics_of(job)
    system.prepare(topics)
    shares = [topics[number :: job.connections] or topics for number in range(job.connections)]
    return [system.publisher(share, job.size, job.per_entry) for share in shares]


def fill(system: System, job: Job) -> Figures:
    """So many messages, and all of them acknowledged."""
    start = time.perf_counter()
    topics = topics_of(job)
    system.prepare(topics)
    publisher = system.publisher(topics, job.size, job.per_entry)
    publish_count(publisher, job.messages // job.per_entry, job.window)
    return {"seconds": time.perf_counter() - start}


def read(system: System, job: Job) -> Figures:
    """The whole topic, from its beginning, again and again until the time is up."""
    (topic,) = topics_of(job)
    meter = Meter(job.pid)
    messages, seconds = 0, 0.0
    while seconds < job.seconds:
        meter.edge()
        channel = system.subscriber(topic, job.messages, job.per_entry)
        seconds += read_all(channel, job.messages)
        meter.edge()
        messages += job.messages
        channel.socket.close()
    return _rates(job, messages, seconds, meter.cpu_seconds)


def tail(system: System, job: Job) -> Figures:
    """From the call that sends a message to its arrival at a subscriber, at a modest rate."""
    topics = topics_of(job)
    system.prepare(topics)
    publisher = system.publisher(topics, job.size, 1)
    total = int(TAIL_RATE * job.seconds)
    channel = system.subscriber(topics[0], total, 1)
    times: list[float] = []
    latencies: list[tuple[float, int]] = []
    poll = select.poll()
    poll.register(channel.socket, select.POLLIN)
    poll.register(publisher.channel.socket, select.POLLIN)
    row, size = memoryview(publisher.frames.row), publisher.frames.frame_bytes
    start = time.perf_counter() + 0.1
    while len(latencies) < total:
        wait = start + len(times) / TAIL_RATE - time.perf_counter()
        if len(times) < total and wait <= 0:
            offset = len(times) % publisher.frames.count * size
            times.append(time.perf_counter())
            publisher.channel.socket.sendall(row[offset : offset + size])
            continue
        ready = [number for number, _ in poll.poll(max(0.0, wait) * 1000)]
        if publisher.channel.socket.fileno() in ready:
            receive(publisher.channel)
        if channel.socket.fileno() in ready:
            arrived, now = receive(channel), time.perf_counter()
            seen = len(latencies)
            latencies += [(now - times[seen + index], 1) for index in range(arrived)]
    return percentiles(latencies[TAIL_RATE // 5 :])


def _rates(job: Job, messages: int, seconds: float, cpu_seconds: float) -> Figures:
    if not messages:
        raise Failed(f"nothing was acknowledged in {seconds:.1f} s")
    size = messages * job.size
    return {
        "msg/s": messages / seconds,
        "MB/s": size / seconds / 1e6,
        "CPU s/GB": cpu_seconds / (size / 1e9),
        "CPU us/msg": 1e6 * cpu_seconds / messages,
        "RSS MB": usage_of(job.pid).rss_mb,
    }


def percentiles(latencies: Sequence[tuple[float, int]]) -> Figures:
    """In milliseconds."""
    ordered = sorted(latencies)
    total = sum(count for _, count in ordered)
    figures: Figures = {}
    for name, share in (("p50 ms", 0.5), ("p99 ms", 0.99), ("p99.9 ms", 0.999)):
        passed = 0
        for latency, count in ordered:
            passed += count
            if passed >= share * total:
                figures[name] = 1000 * latency
                break
    return figures


if __name__ == "__main__":
    print(json.dumps(run(Job(**json.loads(sys.argv[1])))))
