"""How does the broker compare with its peers and with the bare machine, all syncs included?

    python -m benchmarks.broker [--quick] [--rounds N] [--json FILE] [--directory DIR]
                                [--peers DIR] [--only VARIANT ...]

Every round starts each server afresh, one after the other and in another order each time, and runs
the same jobs against it from a load generator in a process of its own. Acknowledged means synced to
disk, except where a variant's name says otherwise:

    compiled, interpreted    Anabranch, with its hot modules through mypyc, or as plain Python
    nats-always, nats        JetStream, file storage; `sync_interval: always`, or its default
    redis-always, redis      Streams; `appendfsync always`, or `everysec`
    bare-log                 frames of a fixed size, one group commit, nothing parsed or kept
    bare-echo                the same without the log: sockets and the event loop alone

`by N` are batches of N messages, which count as one entry in flight. Peers have no such batches.
Latencies are those of an acknowledgement; CPU and memory are those of the server process.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from anabranch.runtime import build_mode
from benchmarks.broker_report import Results, print_report
from benchmarks.ledgers import FULL as LEDGERS_FULL
from benchmarks.ledgers import raw_disk
from benchmarks.load import Figures, Job
from benchmarks.peers import servers
from benchmarks.peers.process import usage_of
from benchmarks.peers.servers import Missing, Server, drop_page_cache, running

KIB = 1024
JOB_SECONDS = 180.0  # no job may take longer


@dataclass(frozen=True, slots=True)
class Scale:
    warm: float
    seconds: float
    on_disk: int  # messages of the topic that is read from disk
    with_client: int  # messages sent by the stock client
    restart: int  # messages in the directory that is started from
    lap: int  # messages of 64 KB to go once round the journal


FULL = Scale(0.4, 1.5, 300_000, 60_000, 1_000_000, 9_000)
QUICK = Scale(0.2, 0.5, 40_000, 5_000, 50_000, 1_000)

CACHED = 24_000  # messages of 1 KB: less than the tail cache holds
CACHED_SMALL = 200_000  # of 100 bytes


@dataclass(frozen=True, slots=True)
class Variant:
    system: str
    start: servers.Start
    # How often a peer syncs makes no difference to its readers: they are measured once.
    is_read: bool = True


VARIANTS = {
    "compiled": Variant("anabranch", servers.anabranch("compiled")),
    "interpreted": Variant("anabranch", servers.anabranch("interpreted")),
    "nats-always": Variant("nats", servers.nats("always"), is_read=False),
    "nats": Variant("nats", servers.nats(None)),
    "redis-always": Variant("redis", servers.redis("always"), is_read=False),
    "redis": Variant("redis", servers.redis("everysec")),
    "bare-log": Variant("bare", servers.bare("log")),
    "bare-echo": Variant("bare", servers.bare("echo")),
}


@dataclass(frozen=True, slots=True)
class Step:
    """A job and what must happen before it."""

    title: str
    job: Job
    is_cold: bool = False  # the page cache is dropped first
    is_stock_client: bool = False


def steps(name: str, base: Job, scale: Scale) -> Iterator[Step]:
    if base.system == "anabranch":
        # Journal files are filled with zeros when first used, then recycled: go once round.
        lap = replace(base, name="lap", kind="fill", size=64 * KIB, window=100)
        yield Step("", replace(lap, messages=scale.lap))
    yield from publishing(base)
    if base.system == "bare":
        return
    yield Step("1 KB, tailing at 500/s", replace(base, name="tail", kind="tail"))
    if VARIANTS[name].is_read:
        yield from reading(base, scale)
    if base.system == "anabranch":
        yield from batching(base)
    if name == "compiled":
        yield from stock_client(base, scale)


def publishing(base: Job) -> Iterator[Step]:
    for window in (1, 100, 1000):
        job = replace(base, name=f"w{window}", window=window)
        yield Step(f"publish 1 KB, {window} in flight", job)
    for topics in (16, 64) if base.system != "bare" else ():
        job = replace(base, name=f"t{topics}", topics=topics)
        yield Step(f"publish 1 KB, 1000 in flight, {topics} topics", job)
    # Redis is at its best when many connections share a turn of its loop.
    for connections in (10, 50):
        job = replace(base, name=f"c{connections}", connections=connections)
        yield Step(f"publish 1 KB, 1000 in flight, {connections} connections", job)
    small = replace(base, name="small", size=100)
    yield Step("publish 100 B, 1000 in flight", small)
    large = replace(base, name="large", size=64 * KIB, window=100)
    yield Step("publish 64 KB, 100 in flight", large)


def batching(base: Job) -> Iterator[Step]:
    spread = replace(base, name="c64", topics=64, connections=64)
    yield Step("publish 1 KB, 1000 in flight, 64 topics on 64 connections", spread)
    large = replace(base, name="larger", size=128 * KIB, window=100)
    yield Step("publish 128 KB, 100 in flight", large)
    by_100 = replace(base, name="by100", per_entry=100, window=10)
    yield Step("publish 1 KB by 100, 10 entries in flight", by_100)
    by_1000 = replace(base, name="by1000", size=100, per_entry=1000, window=10)
    yield Step("publish 100 B by 1000, 10 entries in flight", by_1000)
    yield Step(
        "publish 100 B by 1000, 10 entries in flight, 16 topics",
        replace(by_1000, name="by1000t16", topics=16),
    )
    fill = replace(base, name="rb", kind="fill", size=100, per_entry=1000, window=10)
    fill = replace(fill, messages=CACHED_SMALL)
    yield Step("", fill)
    yield Step("read 100 B by 1000 from memory", replace(fill, kind="read"))


def reading(base: Job, scale: Scale) -> Iterator[Step]:
    disk = replace(base, name="disk", kind="fill", messages=scale.on_disk)
    yield Step("", disk)
    # Filled last, so that this is what the server still has in memory.
    cached = replace(base, name="cached", kind="fill", messages=CACHED)
    yield Step("", cached)
    yield Step("read 1 KB from memory", replace(cached, kind="read"))
    if base.system != "redis":  # which has everything in memory
        yield Step("read 1 KB from disk", replace(disk, kind="read", seconds=0.01), is_cold=True)


def stock_client(base: Job, scale: Scale) -> Iterator[Step]:
    for title, size, per_entry in (
        ("1 KB", KIB, 1),
        ("1 KB by 100", KIB, 100),
        ("100 B by 1000", 100, 1000),
    ):
        name = f"client-{size}-{per_entry}"
        job = replace(base, name=name, size=size, per_entry=per_entry, messages=scale.with_client)
        yield Step(f"stock client produces {title}", job, is_stock_client=True)
        reads = replace(job, kind="read")
        yield Step(f"stock client consumes {title}", reads, is_stock_client=True)


def run_step(step: Step, directory: Path) -> Figures:
    """In a process of its own; every failure is a figure that is missing, with its reason."""
    os.sync()  # what the last job left to the page cache is not this one's to write
    if step.is_cold:
        drop_page_cache(directory)
    module = "benchmarks.real_client" if step.is_stock_client else "benchmarks.load"
    done = subprocess.run(
        [sys.executable, "-m", module, step.job.to_json()],
        env={**os.environ, "ANABRANCH_PURE": "0"},
        capture_output=True,
        text=True,
        timeout=JOB_SECONDS,
    )
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip() or "no message").splitlines()[-1])
    figures: Figures = json.loads(done.stdout)
    return figures


def measure(name: str, scale: Scale, options: argparse.Namespace, results: Results) -> None:
    """All jobs of one variant, on a server and a directory of their own."""
    variant = VARIANTS[name]
    with (
        tempfile.TemporaryDirectory(dir=options.directory, prefix="broker-") as place,
        running(variant.start, Path(place), options.peers) as server,
    ):
        idle = {"ready s": server.ready_seconds, "RSS MB": usage_of(server.pid).rss_mb}
        results.add("idle server, empty directory", name, idle)
        base = Job(
            variant.system, server.address, server.pid, "", warm=scale.warm, seconds=scale.seconds
        )
        for step in steps(name, base, scale):
            if options.step and step.title and options.step not in step.title:
                continue
            _attempt(step, name, Path(place), results)


def _attempt(step: Step, name: str, directory: Path, results: Results) -> None:
    try:
        figures = run_step(step, directory)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        results.fail(step.title or f"preparing {step.job.name}", name, str(error))
        print(f"  {name}: {step.title}: failed: {error}", file=sys.stderr)
        return
    if step.title:
        results.add(step.title, name, figures)
        rate = figures.get("msg/s")
        note = f"{rate:,.0f} msg/s" if rate else f"{figures.get('p50 ms', 0):.3g} ms"
        print(f"  {name}: {step.title}: {note}", file=sys.stderr)


def restarts(name: str, scale: Scale, options: argparse.Namespace, results: Results) -> None:
    """How soon a broker is ready on a directory that holds a million messages."""
    variant = VARIANTS[name]
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="restart-") as place:
        with running(variant.start, Path(place), options.peers) as server:
            _fill(server, scale)
        title = f"start on {scale.restart:,} messages"
        with running(variant.start, Path(place), options.peers) as server:
            found = {"ready s": server.ready_seconds, "RSS MB": usage_of(server.pid).rss_mb}
            results.add(f"{title}, after a stop", name, found)
            _fill(server, replace(scale, restart=scale.restart // 10))
            server.stop(signal.SIGKILL)
        with running(variant.start, Path(place), options.peers) as server:
            found = {"ready s": server.ready_seconds, "RSS MB": usage_of(server.pid).rss_mb}
            results.add(f"{title}, after a kill", name, found)


def _fill(server: Server, scale: Scale) -> None:
    job = Job("anabranch", server.address, server.pid, "old", "fill", topics=16, size=100)
    run_step(Step("", replace(job, messages=scale.restart)), Path())


def one_round(number: int, scale: Scale, options: argparse.Namespace, results: Results) -> None:
    names = list(options.only or VARIANTS)
    # Another order each round: nobody always runs behind the same neighbour.
    names = names[number % len(names) :] + names[: number % len(names)]
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="disk-") as place:
        for measure_name, (value, unit) in raw_disk(Path(place), LEDGERS_FULL).items():
            results.add(measure_name, "disk", {unit: value})
    for name in names:
        print(f"round {number + 1}: {name}", file=sys.stderr)
        try:
            measure(name, scale, options, results)
            if VARIANTS[name].system == "anabranch" and not options.step:
                restarts(name, scale, options, results)
        except Missing as error:
            results.fail("everything", name, str(error))
            print(f"  skipped: {error}", file=sys.stderr)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            results.fail("restarts", name, str(error))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="less of everything: a smoke test")
    parser.add_argument("--json", help="write every round's figures here")
    parser.add_argument("--directory", help="where servers write; another disk, another answer")
    parser.add_argument("--peers", type=Path, default=Path(".venv/peers"), help="their environment")
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS))
    parser.add_argument("--step", help="only jobs whose title contains this")
    return parser.parse_args()


def main() -> None:
    options = parse()
    if build_mode.loaded_mode() != "compiled":
        VARIANTS.pop("compiled")
        print("no compiled modules: that variant is left out", file=sys.stderr)
    results = Results(servers.versions(options.peers))
    scale = QUICK if options.quick else FULL
    for number in range(options.rounds):
        one_round(number, scale, options, results)
    print_report((__doc__ or "").splitlines()[0], results)
    if options.json:
        Path(options.json).write_text(results.to_json() + "\n")


if __name__ == "__main__":
    main()
