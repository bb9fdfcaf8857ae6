"""The REST API held to its own OpenAPI description, by a fuzzer in an environment of its own.

The fuzzer is schemathesis, pinned in FUZZER; it brings some forty packages, so it is not part of
what the tests install. `ANABRANCH_SCHEMATHESIS` says where its command `st` lies:

    python -m venv .venv/rest-fuzz && .venv/rest-fuzz/bin/pip install schemathesis==4.32.5
    ANABRANCH_SCHEMATHESIS=.venv/rest-fuzz/bin/st python -m pytest tests/interop/test_admin_fuzz.py
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.interop.broker_process import BrokerProcess
from tests.interop.exchange import Admin

FUZZER = "schemathesis==4.32.5"
COMMAND = os.environ.get("ANABRANCH_SCHEMATHESIS", "")
EXAMPLES = os.environ.get("ANABRANCH_SCHEMATHESIS_EXAMPLES", "10")
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance"
# Names that exist, so that requests get further than to "not found".
KNOWN = """
[parameters]
"path.tenant" = "public"
"path.namespace" = "default"
"path.topic" = ["t", "p", "p-partition-0"]
"path.subscription" = "s"
"path.cluster" = "standalone"
"""

pytestmark = pytest.mark.skipif(not COMMAND, reason=f"set ANABRANCH_SCHEMATHESIS; {FUZZER}")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("names", ["made up", "known"])
def test_every_answer_is_one_that_the_description_names(names: str, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    _fill(Admin(broker.http_url))
    (tmp_path / "config.toml").write_text(KNOWN if names == "known" else "")
    done = subprocess.run(
        [
            str(Path(COMMAND).absolute()),
            *("--config-file", "config.toml", "run", f"{broker.http_url}/openapi.json"),
            *("--checks", f"{CHECKS},response_schema_conformance"),
            *("--phases", "coverage,fuzzing", "--max-examples", EXAMPLES),
            *("--suppress-health-check", "all", "--no-color"),
            # What is deleted is gone for all requests after it.
            *(("--exclude-method", "DELETE") if names == "known" else ()),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert broker.stop() == 0
    assert done.returncode == 0, done.stdout[-5000:]
    assert re.search(r"(\d+) generated, \1 passed", done.stdout)
    assert "Traceback" not in broker.log.read_text()


def _fill(admin: Admin) -> None:
    admin.put("persistent/public/default/t")
    admin.put("persistent/public/default/p/partitions", 3)
    for name in ("t", "p"):
        admin.put(f"persistent/public/default/{name}/subscription/s")
