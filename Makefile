# Everything a newcomer needs: `make demo`, `make test`. Both set up `.venv` first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
UV     := $(or $(shell command -v uv 2>/dev/null),$(BIN)/uv)
DEMO_ARGS ?=
MUTANTS_ARGS ?= --jobs 2
# What CI runs on secured clusters, Java's tools included where they are; all: make test-secure SECURE="tests/process tests/interop"
SECURE ?= $(patsubst %,tests/process/test_%.py,clients client_refusals groups combined quorum tier durability follower_fetch replacement thin_leaders record_commands data_commands) \
	$(patsubst %,tests/interop/test_%.py,java_clients groups client_quotas directory_moves)
# Two more than there are cores: tests of processes mostly wait.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(4, (os.cpu_count() or 1) + 2))')
# Tests that read the text of every file, and run nothing of it: rules of the house, which make check holds.
HOUSE := $(patsubst %,tests/test_%.py,tidy docs doors error_families) $(patsubst %,tests/sim/mutants/test_%.py,generate never_run)
# A test that even its own time limit does not end (of its clean-up, say) ends its worker, with the stacks of all threads.
no_hang = -o faulthandler_timeout=$(1) -o faulthandler_exit_on_timeout=true
SIM_SEEDS ?= 1000
SIM_SECONDS ?= 300
SIM_START ?= $(shell $(PYTHON) -c 'import secrets; print(secrets.randbelow(10**9))')

FUZZ_SECONDS ?= 600
FUZZ_SEED ?= $(shell $(PYTHON) -c 'import secrets; print(secrets.randbelow(10**9))')

# Without bytecode every node that a test starts compiles all of tierfetch first: half a second of a core each.
unexport PYTHONDONTWRITEBYTECODE

COMMA := ,
# Packages by uv from the index that pip is configured with, else by pip itself: both say what they are at.
packages = UV_DEFAULT_INDEX="$${UV_DEFAULT_INDEX:-$${PIP_INDEX_URL:-$$($(BIN)/python -m pip config get global.index-url 2>/dev/null)}}" \
	$(UV) pip install --python $(BIN)/python -c constraints.txt $(1) || { \
	echo "uv could not: pip does it, which takes minutes"; \
	$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade 'pip>=25.1' && \
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar on -c constraints.txt $(1); }

BEGAN := $(shell date +%s)

.DEFAULT_GOAL := help
.PHONY: help install demo demo-secure demo-spark test ci check format lint types layers house docs wheel test-faults test-commands test-secure test-abuse fuzz fuzz-parsers install-fuzz test-interop test-simulated test-spark install-spark simulate test-planted test-exhaustive test-widest search-planted mutants bench release clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*?## ' $(MAKEFILE_LIST) | awk -F ':.*?## ' '{printf "  make %-14s %s\n", $$1, $$2}'

install: $(STAMP) ## Make .venv with everything in it (by uv, which pip brings, or by pip)

$(STAMP): pyproject.toml constraints.txt __init__.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "tierfetch needs Python 3.11 or newer: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || { echo "1/3 a virtual environment in $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@command -v $(UV) >/dev/null || { echo "2/3 uv, which installs faster than pip"; $(BIN)/python -m pip install -q --disable-pip-version-check uv || true; }
	@echo "3/3 packages (a minute at most once they are in the cache of downloads)"
	@$(call packages,--group dev -e '.[demo$(COMMA)docs]')
	@mkdir -p .types && ln -sfn .. .types/tierfetch
	@touch $(STAMP)
	@echo "installed in $$(($$(date +%s) - $(BEGAN))) s; make help lists what can be done now"

demo: install ## Kill and wipe a follower under each bootstrap policy, time its return, prove it equal (about 2 minutes)
	$(BIN)/tierfetch demo $(DEMO_ARGS)

demo-secure: install ## The same with TLS on every connection, SCRAM for clients, ACLs that deny by default
	$(BIN)/tierfetch demo --secure $(DEMO_ARGS)

demo-spark: install-spark ## A small tier, asked, audited, profiled and exported with Spark, no broker running (about a minute)
	$(BIN)/tierfetch spark demo $(DEMO_ARGS)

test: install ## All tests that need nothing but this checkout; quick ones first (5 to 13 minutes on 2 cores)
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder --new-first $(HOUSE:%=--ignore=%) $(call no_hang,240)

ci: ## What CI runs: every suite below, what failed once more, one table at the end (about an hour; SUITES="check test")
	.ci/run $(SUITES)

test-faults: install ## Brokers killed, frozen and starved while they serve (about 7 minutes)
	$(BIN)/python -m pytest -q tests/process -m faults --timeout 300 -n 2 --dist loadfile --no-loadscope-reorder $(call no_hang,330)

test-commands: install ## Whole clusters: the tutorial, reassign, replacements, quorums, secured ones (about 4 minutes)
	$(BIN)/python -m pytest -q tests/process -m 'commands or secured' --timeout 300 -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(call no_hang,600)

test-secure: install ## Processes, clients and Java's tools again, on clusters with TLS, SASL and ACLs (about 7 minutes)
	$(BIN)/python -m pytest -q $(SECURE) --secure -m 'not faults and not secured and not plaintext' --timeout 300 -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(call no_hang,600)

test-abuse: install ## Hostile clients and peers at whole nodes, an honest client beside them (about 6 minutes)
	$(BIN)/python -m pytest -q tests/abuse -m abuse --timeout 300 -n 2 --dist loadfile --no-loadscope-reorder

fuzz: install ## Requests of any content at a broker and a controller that have a cluster's state (FUZZ_SECONDS, FUZZ_SEED)
	FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$(FUZZ_SEED) $(BIN)/python -m pytest -q tests/abuse/test_fuzz.py -m abuse -s

fuzz-parsers: install-fuzz ## What comes from clients, leaders, the tier and the disk, guided by coverage (Atheris; FUZZ_SECONDS)
	$(BIN)/python -m tierfetch.tests.fuzz.all_targets $(FUZZ_SECONDS)

install-fuzz: $(VENV)/.fuzz

$(VENV)/.fuzz: $(STAMP)
	@$(call packages,--group fuzz)
	@touch $@

test-interop: install ## Against Apache Kafka 4.3.0 (needs Java 17+ and Maven, or says why it skips)
	$(BIN)/python -m pytest -q tests/interop -m interop --timeout 600 -n 2 --dist loadfile --no-loadscope-reorder

test-spark: install-spark ## The tier as a Spark table (installs PySpark; Java comes from a wheel if there is none)
	$(BIN)/python -m pytest -q tests/spark tests/pipeline -m spark --timeout 600

install-spark: $(VENV)/.spark

$(VENV)/.spark: $(STAMP)
	@$(call packages,-e '.[spark]')
	@touch $@

simulate: install ## Fresh random seeds of the simulation (SIM_SEEDS, SIM_SECONDS, SIM_START)
	$(BIN)/tierfetch simulate --seeds $(SIM_SEEDS) --start $(SIM_START) --time-limit $(SIM_SECONDS) --jobs 2

test-simulated: install ## Whole simulated clusters, and applications in them (about 3 minutes)
	$(BIN)/python -m pytest -q tests/sim tests/testing -m simulated --timeout 300 -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(call no_hang,600)

test-planted: install ## Each planted bug is found again at its known seed, or one of a few others (minutes)
	$(BIN)/python -m pytest -q tests/sim -m planted --timeout 300 -n logical --maxprocesses 4

test-exhaustive: install ## The cores of quorum and controller, searched exhaustively (about a minute)
	$(BIN)/python -m pytest -q tests/quorum tests/controller -m exhaustive --timeout 900 -n $(WORKERS) --maxschedchunk 1

test-widest: install ## The two widest of these searches, a core each (about 8 minutes, 4 GB)
	$(BIN)/python -m pytest -q tests/quorum -m widest --timeout 1500 -n 2

search-planted: install ## Look for the seed that finds each planted bug, known ones first; writes docs/planted-bugs.md
	$(BIN)/python -m tierfetch.tests.sim.planted.search --again --jobs 2

mutants: install ## What of all that could be wrong would be noticed: a sample, resumable (hours; MUTANTS_ARGS, --help lists them)
	$(BIN)/python -m tierfetch.tests.sim.mutants $(MUTANTS_ARGS)

check: install ## ruff, mypy --strict, lint-imports, rules of the house, the docs, the wheel smoke-tested outside the checkout
	@$(MAKE) --no-print-directory -j 2 --output-sync=target wheel types house lint layers docs

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy -p tierfetch

layers: install
	$(BIN)/lint-imports

house: install
	$(BIN)/python -m pytest -q $(HOUSE)
	@echo "every test of every suite can be collected"
	@found=$$($(BIN)/python -m pytest --collect-only -qq -m "" tests) || { echo "$$found" | tail -40; exit 1; }

docs: install ## The docs as a site, in build/site; a broken link fails it (seconds)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

wheel: install ## The wheel in fresh environments: plain, and with each extra but spark (smoke_wheel --extra spark)
	$(BIN)/python -m pytest -q -m packaging tests/test_release.py tests/test_extras.py tests/test_library.py
	$(BIN)/python -m tierfetch.tests.smoke_wheel

format: install ## Let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install ## Us and Apache Kafka 4.3.0 in turn, within half an hour (needs Java and Maven)
	$(BIN)/python -m bench all --against kafka

release: install ## sdist, wheel and SBOM of HEAD in dist/: built twice, the same bytes, checked by twine (a minute)
	$(BIN)/python -m tierfetch.tests.release

clean: ## Remove what the targets above made
	rm -rf $(VENV) .types build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .lab
