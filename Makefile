# Needs Python >= 3.11 and make. npm is used where it is there: for the type checker and the live tests.
PYTHON ?= python3
LISTEN ?= 127.0.0.1:8765
PYTEST ?=
FUZZ_SECONDS ?= 600
SOAK_SECONDS ?= 600
CHAOS_SECONDS ?= 120
MUTATION ?= hub/guard hub/roots --sample 200
CONFORMANCE ?=
CLIENTS ?=
ORPHAN_ROUNDS ?= 20
ATTACH_ROUNDS ?= 100
BENCH_ROUNDS ?=
TESTERS ?= 5

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
NPM := $(shell command -v npm 2>/dev/null)
UV_VERSION := 0.13.8
# With extras: else pip takes the newest `coverage[toml]` that there is, for which there is no hash.
COMPILE = $(BIN)/uv pip compile --quiet --no-strip-extras --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --custom-compile-command 'make lock'

CONFINED := .confinement
LOWEST := .lowest
SUITES := .conformance
CLIENTS_DIR := .clients
DOCS := .docs
DIST := .dist
WHOLE_PROGRAMS := live test_packaging.py
# A file's tests stay together: they share what they start. Long files come first (tests/conftest.py).
# A tester that ends is not replaced: the next one would run its test again, and in the end all wait for ever.
SIDE_BY_SIDE := --numprocesses=$(TESTERS) --dist=loadfile --no-loadscope-reorder --max-worker-restart=0
# Programs that the tests start hundreds of times are compiled once, whatever the environment says.
PYTEST_RUN := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
# For tests that repeat so often that they take longer than others may.
UNHURRIED := --override-ini=faulthandler_timeout=3600
BENCH := .bench

.PHONY: help run setup test quick lowest conformance clients replicas confinement-tests check orphans attach fuzz mutation soak chaos bench bench-quick slow-requests misbehaving growth instructions docs dist dist-quick manifests completions fmt lock clean
.DELETE_ON_ERROR:

help:
	@echo 'make run      serve the current directory over HTTP on $(LISTEN)'
	@echo 'make test     install what the tests need and run them, TESTERS=$(TESTERS) files at a time (PYTEST="-k roots" narrows)'
	@echo 'make quick    the tests that need no other process and do not take long'
	@echo 'make lowest   the tests on the lowest versions of what the hub needs that pyproject.toml allows'
	@echo 'make conformance  the MCP conformance suite: the hub as a server, the hub as a client (CONFORMANCE=server narrows)'
	@echo 'make clients  what works with which client: SDKs, FastMCP, Inspector, mcp-remote (12 minutes; CLIENTS="fastmcp" narrows)'
	@echo 'make replicas  two hubs behind a real nginx, as docs/scale.md sets them up: which calls succeed (needs nginx)'
	@echo 'make confinement-tests  confinement of servers too heavy to be installed always (600 MB)'
	@echo 'make orphans  end the hub in every way, ORPHAN_ROUNDS=$(ORPHAN_ROUNDS) times each (20 minutes): no process may be left'
	@echo 'make attach   10 first clients at once, and a killed hub and client, ATTACH_ROUNDS=$(ATTACH_ROUNDS) times (15 minutes): one hub each time'
	@echo 'make fuzz     the guard on ever new input, for FUZZ_SECONDS=$(FUZZ_SECONDS)'
	@echo 'make mutation  small mistakes in the guard and the roots that no test notices (MUTATION="hub/paths --sample 50" narrows)'
	@echo 'make soak     clients that come and go, for SOAK_SECONDS=$(SOAK_SECONDS): nothing may be left, no call lost'
	@echo 'make chaos    kills, lost connections and broken configs among calls, for CHAOS_SECONDS=$(CHAOS_SECONDS): each answer must be right'
	@echo 'make bench    the hub beside a bare relay and other programs, which this installs (10 minutes)'
	@echo 'make slow-requests  a client beside 5,000 that finish nothing: is it served, and what does that cost'
	@echo 'make growth   how what a hub spends grows with sessions, children, tools, roots and paths'
	@echo 'make misbehaving  what a server that misbehaves costs the others, in many ways of doing so'
	@echo 'make instructions  how many instructions a call takes, beside a bare relay (needs valgrind)'
	@echo 'make bench-quick  how far the hub is from a bare relay, in a minute'
	@echo 'make docs     the pages of docs/ as a site in $(DOCS)/site; a broken link fails'
	@echo 'make dist     build what a release has into dist/, and try each thing (2 minutes; needs npm); docs/packaging.md'
	@echo 'make dist-quick  wheel and sdist built twice, the same bytes; twine'
	@echo 'make completions, make manifests   what packages take from the parser and from pyproject.toml'
	@echo 'make check    format, lint, layers and types'
	@echo 'make setup    the environment with all tools, nothing run'
	@echo 'make fmt      format and sort imports'
	@echo 'make lock     resolve all dependencies anew'
	@echo 'make clean    remove all that these commands made'

run: $(VENV)/run.stamp
	HUB_STARTED_BY='make run' $(BIN)/roots-hub run --http $(LISTEN)

setup: $(VENV)/dev.stamp $(if $(NPM),node_modules/.stamp)

test: setup
	$(PYTEST_RUN) $(SIDE_BY_SIDE) $(PYTEST)

# What needs no other process and does not take long, with fewer examples: for the loop of writing.
# It waits for nothing, so that more testers than processors would only take longer to begin.
quick: setup
	$(PYTEST_RUN) --quiet $(SIDE_BY_SIDE) --numprocesses=auto --hypothesis-profile=quick -m "not live and not long" tests \
	  $(addprefix --ignore=tests/,$(WHOLE_PROGRAMS) seeds children/process confinement) $(PYTEST)

# Without the tests of whole programs, which take long and depend on these versions no more than the others do.
lowest: $(LOWEST)/.stamp
	PYTHONDONTWRITEBYTECODE= $(LOWEST)/bin/python -m pytest $(SIDE_BY_SIDE) tests $(addprefix --ignore=tests/,$(WHOLE_PROGRAMS)) $(PYTEST)

$(LOWEST)/.stamp: pyproject.toml | $(VENV)/dev.stamp
	$(PIP) install uv==$(UV_VERSION)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	$(BIN)/uv pip compile --quiet --resolution lowest-direct --python $(LOWEST)/bin/python \
	  pyproject.toml --output-file $(LOWEST)/requirements.txt
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python -r $(LOWEST)/requirements.txt --group dev --editable .
	@touch $@

conformance: $(VENV)/dev.stamp $(SUITES)/.stamp
	$(BIN)/python -m tests.conformance $(CONFORMANCE)

# Apart from what the tests need: it is large, and brings a Node of its own.
$(SUITES)/.stamp: tests/conformance/package.json tests/conformance/package-lock.json tests/conformance/.npmrc
	mkdir -p $(SUITES)
	cp $^ $(SUITES)
	npm ci --prefix $(SUITES) --loglevel=error
	@touch $@

clients: $(VENV)/dev.stamp $(CLIENTS_DIR)/npm.stamp $(addprefix $(CLIENTS_DIR)/,python-1.stamp python-2.stamp fastmcp.stamp)
	$(BIN)/python -m tests.clients $(CLIENTS)

replicas: $(VENV)/dev.stamp
	$(BIN)/python -m tests.replicas

$(CLIENTS_DIR)/npm.stamp: tests/clients/package.json tests/clients/package-lock.json tests/clients/.npmrc
	mkdir -p $(CLIENTS_DIR)
	cp $^ $(CLIENTS_DIR)
	npm ci --prefix $(CLIENTS_DIR) --loglevel=error
	@touch $@

# Each Python client has an environment of its own: their versions exclude each other, and the hub's.
$(CLIENTS_DIR)/%.stamp: tests/clients/requirements/%.txt | $(VENV)/dev.stamp
	mkdir -p $(CLIENTS_DIR)
	$(PIP) install uv==$(UV_VERSION)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(CLIENTS_DIR)/$*
	$(BIN)/uv pip sync --quiet --require-hashes --python $(CLIENTS_DIR)/$* $<
	@touch $@

# Servers that are tested bare and confined, as their users install them: what they depend on is not locked.
confinement-tests: setup $(CONFINED)/.stamp
	$(BIN)/python -m pytest tests/live/test_confinement.py $(PYTEST)

$(CONFINED)/.stamp: tests/live/confined-servers.json
	mkdir -p $(CONFINED)
	$(PIP) install uv==$(UV_VERSION)
	UV_TOOL_DIR=$(CONFINED)/tools UV_TOOL_BIN_DIR=$(CONFINED)/bin $(BIN)/uv tool install markitdown-mcp==0.0.1a7
	UV_TOOL_DIR=$(CONFINED)/tools UV_TOOL_BIN_DIR=$(CONFINED)/bin $(BIN)/uv tool install mcp-server-sqlite==2025.4.25 --with 'mcp<2'
	cp tests/live/confined-servers.json $(CONFINED)/package.json
	npm install --prefix $(CONFINED) --ignore-scripts --no-package-lock --loglevel=error
	@touch $@

orphans: $(VENV)/dev.stamp
	ORPHAN_ROUNDS=$(ORPHAN_ROUNDS) $(BIN)/python -m pytest -rP $(UNHURRIED) tests/live/test_orphans.py $(PYTEST)

attach: $(VENV)/dev.stamp
	ATTACH_ROUNDS=$(ATTACH_ROUNDS) $(BIN)/python -m pytest -rP $(UNHURRIED) tests/live/test_attach.py tests/live/test_attach_ends.py \
	  -k "at_once or killed" $(PYTEST)

fuzz: $(VENV)/dev.stamp
	$(BIN)/python -m tests.fuzz $(FUZZ_SECONDS)

mutation: $(VENV)/dev.stamp
	$(BIN)/python -m tests.mutation $(MUTATION)

soak: $(VENV)/dev.stamp
	$(BIN)/python bench/soak.py $(SOAK_SECONDS)

chaos: $(VENV)/dev.stamp
	$(BIN)/python -m bench.chaos $(CHAOS_SECONDS)

bench-quick: $(VENV)/dev.stamp $(BENCH)/yardstick.stamp
	$(BIN)/python -m bench.quick $(BENCH_ROUNDS)

bench: $(VENV)/dev.stamp $(BENCH)/yardstick.stamp $(BENCH)/peers.stamp
	$(BIN)/python -m bench.full $(BENCH_ROUNDS)

slow-requests: $(VENV)/dev.stamp
	$(BIN)/python -m bench.slow_requests

growth: $(VENV)/dev.stamp
	$(BIN)/python -m bench.growth

misbehaving: $(VENV)/dev.stamp
	$(BIN)/python -m bench.misbehaving

instructions: $(VENV)/dev.stamp $(BENCH)/yardstick.stamp
	$(BIN)/python -m bench.instructions

# One that cannot be installed is shown as such in the tables. What they depend on is not locked.
$(BENCH)/peers.stamp: bench/node-peers.json bench/fastmcp-overrides.txt
	mkdir -p $(BENCH)/node
	$(PIP) install uv==$(UV_VERSION)
	-$(BIN)/uv venv --quiet --clear $(BENCH)/fastmcp && $(BIN)/uv pip install --quiet --python $(BENCH)/fastmcp \
	  --override bench/fastmcp-overrides.txt fastmcp==4.1.6
	-$(BIN)/uv venv --quiet --clear $(BENCH)/mcp-proxy && $(BIN)/uv pip install --quiet --python $(BENCH)/mcp-proxy mcp-proxy==0.13.0
	-$(BIN)/uv venv --quiet --clear $(BENCH)/contextforge && $(BIN)/uv pip install --quiet --python $(BENCH)/contextforge \
	  mcp-contextforge-gateway==1.0.7.post20260921
	cp bench/node-peers.json $(BENCH)/node/package.json
	-npm install --prefix $(BENCH)/node --ignore-scripts --no-package-lock --loglevel=error
	@touch $@

# What the bare relays need that the hub is compared with; it has no part in the hub.
$(BENCH)/yardstick.stamp: bench/yardstick.txt
	$(PYTHON) -m venv $(BENCH)/yardstick
	$(BENCH)/yardstick/bin/python -m pip --disable-pip-version-check --quiet install -r bench/yardstick.txt
	@touch $@

# Colours off: a broken link is shown with each letter of its line in a colour of its own.
docs: $(DOCS)/.stamp
	NO_COLOR=1 $(DOCS)/bin/zensical build --config-file mkdocs.yml --clean --strict
	@echo 'make docs: the site is in $(DOCS)/site; to read it while writing: $(DOCS)/bin/zensical serve --config-file mkdocs.yml'

$(DOCS)/.stamp: requirements-docs.txt | $(VENV)/pyvenv.cfg
	$(PIP) install uv==$(UV_VERSION)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(DOCS)
	$(BIN)/uv pip sync --quiet --require-hashes --python $(DOCS) $<
	@touch $@

dist: $(DIST)/.stamp $(DIST)/npm.stamp
	$(DIST)/bin/python packaging/dist.py

dist-quick: $(DIST)/.stamp
	$(DIST)/bin/python packaging/dist.py --quick

completions: $(DIST)/.stamp
	PYTHONPATH=. $(DIST)/bin/python packaging/from_parser.py --write

manifests: $(VENV)/pyvenv.cfg
	$(BIN)/python packaging/manifests.py --write

$(DIST)/.stamp: requirements-dist.txt | $(VENV)/pyvenv.cfg
	$(PIP) install uv==$(UV_VERSION)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(DIST)
	$(BIN)/uv pip sync --quiet --require-hashes --python $(DIST) $<
	@touch $@

$(DIST)/npm.stamp: packaging/npm/package.json packaging/npm/package-lock.json packaging/npm/.npmrc | $(DIST)/.stamp
	mkdir -p $(DIST)/npm
	cp $^ $(DIST)/npm
	npm ci --prefix $(DIST)/npm --loglevel=error
	@touch $@

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
ifneq ($(NPM),)
	node_modules/.bin/pyright
else ifeq ($(HUB_REQUIRE_NPM),1)
	@echo 'make check: the type checker needs npm, and HUB_REQUIRE_NPM=1 forbids to skip it' >&2; exit 1
else
	@echo 'make check: types were NOT checked: the type checker (pyright) needs npm'
endif

fmt: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix --select I .
	$(BIN)/ruff format .

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'make: roots-hub needs Python 3.11 or newer, $(PYTHON) is older or missing' >&2; \
	  echo 'Name another one: make PYTHON=python3.12 ...' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# What runs, then what builds the package itself: an isolated build would fetch unpinned packages.
$(VENV)/run.stamp: requirements.txt requirements-build.txt pyproject.toml | $(VENV)/pyvenv.cfg
	@echo 'make: installs what the hub needs into $(VENV): about 40 packages, 95 MB. That takes about half a minute, once.'
	$(PIP) install --require-hashes -r requirements.txt -r requirements-build.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/dev.stamp: requirements-dev.txt $(VENV)/run.stamp
	$(PIP) install --require-hashes -r requirements-dev.txt
	@touch $@

node_modules/.stamp: package.json package-lock.json .npmrc
	npm ci --loglevel=error
	@touch $@

# Each file is held to the one before it, so that one environment can take all of them.
lock: $(VENV)/pyvenv.cfg
	$(PIP) install uv==$(UV_VERSION)
	$(COMPILE) pyproject.toml --output-file requirements.txt
	$(COMPILE) pyproject.toml --group dev --constraints requirements.txt --output-file requirements-dev.txt
	$(COMPILE) --group build --constraints requirements-dev.txt --output-file requirements-build.txt
	$(COMPILE) --group docs --output-file requirements-docs.txt
	$(COMPILE) pyproject.toml --group dist --constraints requirements.txt --constraints requirements-build.txt \
	  --output-file requirements-dist.txt
	$(if $(NPM),npm install --package-lock-only --loglevel=error)
	$(if $(NPM),npm install --prefix tests/conformance --package-lock-only --loglevel=error)
	$(if $(NPM),npm install --prefix packaging/npm --package-lock-only --loglevel=error)
	$(COMPILE) tests/clients/requirements/python-1.in --output-file tests/clients/requirements/python-1.txt
	$(COMPILE) tests/clients/requirements/python-2.in --output-file tests/clients/requirements/python-2.txt
	$(COMPILE) tests/clients/requirements/fastmcp.in --override bench/fastmcp-overrides.txt \
	  --output-file tests/clients/requirements/fastmcp.txt
	$(if $(NPM),npm install --prefix tests/clients --package-lock-only --loglevel=error)

clean:
	rm -rf $(VENV) node_modules $(SUITES) $(CLIENTS_DIR) $(CONFINED) $(LOWEST) $(DOCS) $(DIST) $(BENCH) .import_linter_cache .pytest_cache .ruff_cache .hypothesis .coverage htmlcov build dist
	find hub tests -name __pycache__ -prune -exec rm -rf {} +
