"""A real broker in a process of its own, as a user would start it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


class BrokerProcess:
    """`start` returns once the broker says it is ready; the port stays the same over restarts."""

    def __init__(
        self,
        data: Path,
        *,
        settings: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._data = data
        self._settings = settings
        self._environment = dict(environment or {})
        self._port = 0
        self._http_port = 0
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        self.http_url = ""
        self.log = data.parent / f"{data.name}.log"

    def start(self) -> BrokerProcess:
        command = [sys.executable, "-m", "anabranch", "standalone", "--data-dir", str(self._data)]
        command += ["--host", "127.0.0.1", "--port", str(self._port)]
        command += ["--http-port", str(self._http_port)]
        for setting in self._settings:
            command += ["--set", setting]
        with self.log.open("a") as errors:
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | self._environment,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("ready "), f"{line!r}; {self.log.read_text()[-2000:]}"
        self.url, self.http_url = line.split()[1:3]
        self._port = int(self.url.rpartition(":")[2])
        self._http_port = int(self.http_url.rpartition(":")[2])
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        code = process.wait(timeout=60)
        assert process.stdout is not None
        process.stdout.close()
        return code
