.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "apidiscovery needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes --requirement requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@

.PHONY: setup
setup: $(STAMP) ## Make .venv for the other targets

.PHONY: run
run: setup ## Serve the built-in Kubernetes catalogue on 127.0.0.1:8080 (HTTP) and :50051 (gRPC)
	$(BIN)/apidiscovery serve $(ARGS)

# Most tests wait for processes and sockets, so more of them run at once than there are cores.
WORKERS ?= 4

.PHONY: test
test: setup ## Run the tests, WORKERS at once
	$(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile $(ARGS)

.PHONY: test-fast
test-fast: setup ## Run the tests without processes and waits, in under two minutes
	$(BIN)/pytest --numprocesses 2 --dist loadfile -m "not (process or property or waiting)" $(ARGS)

.PHONY: robustness
robustness: setup ## Test replicas under traffic and faults for two minutes; ARGS, such as "--minutes 30 --figures"
	PYTHONPATH=tests/support $(BIN)/python -m tests.robustness run $(ARGS)

.PHONY: soak
soak: setup ## Measure memory under mixed load for an hour, into docs/reliability-rss.png
	PYTHONPATH=tests/support $(BIN)/python -m tests.robustness soak $(ARGS) docs/reliability-rss.png

.PHONY: real
real: setup ## Run the tests against real kube-apiservers, started by APIDISCOVERY_KUBE_APISERVER
	$(BIN)/pytest --numprocesses 2 --dist loadfile tests/e2e/real $(ARGS)

.PHONY: hostile
hostile: setup ## Run the tests that attack a server: floods, bombs, clients that do not read
	$(BIN)/pytest tests/e2e/hostile $(ARGS)

.PHONY: generate
generate: setup ## Generate generated/ from protos/, and the blocking client from the asyncio one
	$(BIN)/python tools/generate.py
	$(BIN)/python tools/generate_blocking.py

.PHONY: stale
stale: setup ## Fail if generated/, the blocking client or the recorded releases are stale
	$(BIN)/python tools/generate.py --check
	$(BIN)/python tools/generate_blocking.py --check
	$(BIN)/python tools/package_release.py --check

.PHONY: lint
lint: setup ## ruff, import contracts, buf lint, format and breaking changes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/lint-imports
	$(BIN)/buf lint
	$(BIN)/buf format --diff --exit-code
	$(BIN)/python tools/breaking.py

.PHONY: types
types: mypy pyright ## mypy and pyright, both strict

.PHONY: mypy
mypy: setup
	$(BIN)/mypy

.PHONY: pyright
pyright: setup
	$(BIN)/pyright

.PHONY: check
check: stale lint types build ## Run all checks of CI except the tests

.PHONY: build
build: setup ## Build the sdist and the wheel, and test the wheel
	$(BIN)/python tools/build.py

.PHONY: bench
bench: setup ## Run the benchmarks (uses wrk, h2load and nginx where installed)
	$(BIN)/python benchmarks/run.py $(ARGS)

.PHONY: lock
lock: setup ## Resolve the dependencies and pin them with hashes
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --custom-compile-command "make lock" --extra grpc --extra server --extra betterproto --group dev --output-file requirements.lock pyproject.toml $(ARGS)
