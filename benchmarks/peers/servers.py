"""Starting and stopping the servers that are measured: ours and the peers, each on 127.0.0.1.

A server whose program is not installed is `Missing`, and the report says so. Nothing outlives the
`with` block it was started in.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

START_SECONDS = 30.0
STOP_SECONDS = 30.0


class Missing(Exception):
    """A peer's program is not there."""


@dataclass(frozen=True, slots=True)
class Server:
    address: str
    process: subprocess.Popen[str]
    ready_seconds: float  # from the start of the process to its word that it is ready

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


Start = Callable[[Path, Path], Server]  # (data directory, where peers are installed)


@contextmanager
def running(start: Start, directory: Path, peers: Path) -> Iterator[Server]:
    server = start(directory, peers)
    try:
        yield server
    finally:
        server.stop()


def anabranch(mode: str, *options: str) -> Start:
    def start(directory: Path, peers: Path) -> Server:
        command = [sys.executable, "-m", "anabranch", "standalone", "--data-dir", str(directory)]
        command += ["--host", "127.0.0.1", "--port", "0", "--http-port", "0", *options]
        # A million messages in a topic nobody reads must still be there when the clock starts.
        command += ["--set", "defaultRetentionTimeInMinutes=-1"]
        command += ["--set", "defaultRetentionSizeInMB=-1"]
        pure = "1" if mode == "interpreted" else "0"
        return _that_says_ready(command, {**os.environ, "ANABRANCH_PURE": pure})

    return start


def bare(mode: str) -> Start:
    def start(directory: Path, peers: Path) -> Server:
        module = "benchmarks.peers.bare_server"
        return _that_says_ready([sys.executable, "-m", module, mode, str(directory / "log")])

    return start


def nats(sync_interval: str | None) -> Start:
    def start(directory: Path, peers: Path) -> Server:
        program = find("nats-server", peers)
        port = _free_port()
        sync = f"sync_interval: {sync_interval}" if sync_interval else ""
        config = directory / "nats.conf"
        config.write_text(
            f'listen: "127.0.0.1:{port}"\n'
            'ping_interval: "10m"\n'
            "max_pending: 1GB\n"  # or a reader that lags is cut off
            f'jetstream {{ store_dir: "{directory}/jetstream", max_file: 50GB, {sync} }}\n'
        )
        return _that_listens([program, "-c", str(config)], port)

    return start


def redis(fsync: str) -> Start:
    def start(directory: Path, peers: Path) -> Server:
        program = find("redis-server", peers)
        port = _free_port()
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory)]
        command += ["--appendonly", "yes", "--appendfsync", fsync, "--save", ""]
        command += ["--auto-aof-rewrite-percentage", "0"]
        return _that_listens(command, port)

    return start


def find(program: str, peers: Path) -> str:
    here = peers / "bin" / program
    found = str(here) if here.exists() else shutil.which(program)
    if found is None:
        raise Missing(f"{program} is neither in {peers}/bin nor on the path: `make bench-broker`")
    return found


def versions(peers: Path) -> dict[str, str]:
    """What each peer says it is."""
    found = {}
    for program in ("nats-server", "redis-server"):
        with suppress(Missing):
            command = [find(program, peers), "--version"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
            found[program] = done.stdout.strip()
    return found


def _that_says_ready(command: Sequence[str], environment: dict[str, str] | None = None) -> Server:
    """A server that prints `ready ADDRESS ...` when it is."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("BENCH_VERBOSE") else subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    watchdog = threading.Timer(START_SECONDS, process.kill)
    watchdog.start()
    line = process.stdout.readline()
    watchdog.cancel()
    if not line.startswith("ready "):
        process.kill()
        raise Missing(f"{' '.join(command)} said {line!r}; BENCH_VERBOSE=1 shows its log")
    address = line.split()[1].removeprefix("pulsar://")
    return Server(address, process, time.perf_counter() - start)


def _that_listens(command: Sequence[str], port: int) -> Server:
    """A server that is ready when its port answers."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    )
    while time.perf_counter() - start < START_SECONDS and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return Server(f"127.0.0.1:{port}", process, time.perf_counter() - start)
        time.sleep(0.02)
    process.kill()
    raise Missing(f"{command[0]} did not listen on port {port}; exit code {process.poll()}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def drop_page_cache(directory: Path) -> None:
    """Make later reads of these files come from the disk, as far as the kernel lets us ask."""
    os.sync()
    for path in directory.rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)
