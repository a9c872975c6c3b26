.DEFAULT_GOAL := help
PYTHON ?= python3
# Tests and benchmarks start hundreds of processes; without cached bytecode each one compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.installed-run
STAMP := $(VENV)/.installed
# import-linter brings rich, which structlog would import: a tenth of a second in each server that a test starts.
LINT_VENV := $(VENV)/lint
LINT_STAMP := $(LINT_VENV)/.installed
# uv is ten times faster than pip, but does not read pip's configuration, which may name an index of your own.
install = @$(BIN)/uv pip install --quiet --python $(1)/bin/python $(2) || { \
  echo "uv could not install this; trying with pip ..."; \
  $(1)/bin/python -m pip install --quiet --disable-pip-version-check $(2); }

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Locks with the same versions, from small to large: what installs the others and this checkout, what running needs (30
# packages), and what all targets need (138). Each adds to the one before, but for that of lint-imports.
$(RUN_STAMP): requirements-build.lock requirements-run.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "apidiscovery needs Python 3.11 or newer, this is " + sys.version)'
	@echo "Installing what the server and the command line need into $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-build.lock
	$(call install,$(VENV),--require-hashes --requirement requirements-run.lock)
	$(call install,$(VENV),--no-deps --no-build-isolation --editable .)
	@touch $@

$(STAMP): requirements.lock $(RUN_STAMP)
	@echo "Installing what tests, checks and benchmarks need into $(VENV) ..."
	$(call install,$(VENV),--require-hashes --requirement requirements.lock)
	@touch $@

$(LINT_STAMP): requirements-lint.lock $(RUN_STAMP)
	@$(PYTHON) -m venv $(LINT_VENV)
	$(call install,$(LINT_VENV),--require-hashes --requirement requirements-lint.lock)
	@touch $@

.PHONY: setup
setup: $(STAMP) ## Make .venv for all targets

.PHONY: run
run: $(RUN_STAMP) ## Serve the built-in Kubernetes catalogue on 127.0.0.1:8080 (HTTP) and :50051 (gRPC)
	@echo "Starting apidiscovery serve $(ARGS); its addresses follow, ctrl-C ends it ..."
	@$(BIN)/apidiscovery serve $(ARGS)

.PHONY: demo
demo: setup ## Show a fleet of clusters that change, on 127.0.0.1:8080
	$(BIN)/apidiscovery demo $(ARGS)

# Most tests wait for processes and sockets, so more of them run at once than there are cores.
WORKERS ?= 4

.PHONY: test
test: setup ## Run the tests, WORKERS at once
	$(BIN)/pytest --numprocesses $(WORKERS) $(ARGS)

.PHONY: test-fast
test-fast: setup ## Run the tests without processes and waits, in under two minutes
	$(BIN)/pytest --numprocesses 2 -m "not (process or property or waiting)" $(ARGS)

.PHONY: robustness
robustness: setup ## Test replicas under traffic and faults for two minutes; ARGS, such as "--minutes 30 --figures"
	PYTHONPATH=tests/support $(BIN)/python -m tests.robustness run $(ARGS)

.PHONY: soak
soak: setup ## Measure memory under mixed load for an hour, into docs/reliability-rss.png
	PYTHONPATH=tests/support $(BIN)/python -m tests.robustness soak $(ARGS) docs/reliability-rss.png

.PHONY: real
real: setup ## Run the tests against real kube-apiservers, started by APIDISCOVERY_KUBE_APISERVER
	APIDISCOVERY_LONG_TESTS=1 $(BIN)/pytest --numprocesses 2 tests/e2e/real $(ARGS)

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
lint: setup $(LINT_STAMP) ## ruff, import contracts, buf lint, format and breaking changes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=service:clients:generated $(LINT_VENV)/bin/lint-imports
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

.PHONY: docs
docs: setup ## Build the documentation as a site in build/site, and its recording of a terminal
	$(BIN)/python tools/record_terminal.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

.PHONY: build
build: setup ## Build the sdist and the wheel, and test the wheel
	$(BIN)/python tools/build.py

.PHONY: bench
bench: setup ## Run the benchmarks (uses wrk and h2load where installed)
	$(BIN)/python benchmarks/run.py $(ARGS)

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --custom-compile-command "make lock"

.PHONY: lock
lock: setup ## Resolve the dependencies and pin them with hashes
	$(COMPILE) --extra betterproto --extra web --group dev --output-file requirements.lock pyproject.toml $(ARGS)
	$(COMPILE) --extra betterproto --extra web --constraint requirements.lock --output-file requirements-run.lock \
	  pyproject.toml
	$(COMPILE) --group build --constraint requirements.lock --output-file requirements-build.lock
	$(COMPILE) --group lint --constraint requirements.lock --output-file requirements-lint.lock
