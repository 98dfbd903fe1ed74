# Everything sets itself up: a virtual environment in the checkout with locked dependencies.
PYTHON ?= python3
FILE ?= README.md
BIN := .venv/bin

.PHONY: help setup demo test quick shuffled check lint format format-check types simulate chaos nemesis nemesis-brokers fuzz bench bench-compare mutants clean

help:  ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.venv/.installed: requirements-dev.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "quorate needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	@# What is never imported is never compiled, which is most, and takes a third of the time of all.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

setup: .venv/.installed  ## Virtual environment with everything in it

demo: setup  ## An operator's day: three real nodes, a stock client, a kill -9, moves, a report (FILE=... to choose the input, DATA=... to keep the nodes' folders)
	$(BIN)/quorate demo --file $(FILE) $(if $(DATA),--data $(DATA))

test: setup  ## The tests but the slowest (JOBS=4 workers, half of which mostly wait)
	$(BIN)/python -m pytest -n $(or $(JOBS),4) -m "not slow"

quick: setup  ## The tests without real time, real processes and whole clusters (JOBS=2 workers)
	$(BIN)/python -m pytest -n $(or $(JOBS),2) -m "not slow and not real_time and not long"

shuffled: setup  ## The quick tests in an order that is drawn (SEED=... replays it)
	$(BIN)/python -m pytest -n $(or $(JOBS),2) -m "not slow and not real_time and not long" \
		-o addopts="--import-mode=importlib --strict-markers -ra" $(if $(SEED),--randomly-seed $(SEED))

check: lint format-check types  ## Lint, format, types and every test, as in CI
	$(BIN)/python -m pytest -n $(or $(JOBS),4)

lint: setup  ## ruff, and import-linter
	$(BIN)/ruff check .
	$(BIN)/lint-imports

format: setup  ## Rewrite to the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

format-check: setup  ## Is everything formatted?
	$(BIN)/ruff format --check .

types: setup  ## mypy --strict
	bash scripts/types

simulate: setup  ## Many simulated clusters (SEEDS=1000 to choose how many)
	$(BIN)/python -m tests.simulator --seeds $(or $(SEEDS),1000)

chaos: setup  ## A hundred rounds of kill -9 under load (ROUNDS=... to choose)
	$(BIN)/python -m pytest tests/system/test_kill.py --rounds $(or $(ROUNDS),100) -s

nemesis: setup  ## Real nodes in network namespaces under every fault, checked for linearizability (MINUTES=30, as root)
	$(BIN)/python scripts/nemesis --seconds $(shell expr $(or $(MINUTES),30) \* 60) $(if $(SEED),--seed $(SEED))

nemesis-brokers: setup  ## The same of brokers, with stock producers and a group (MINUTES=30, as root)
	$(BIN)/python scripts/nemesis/brokers.py --seconds $(shell expr $(or $(MINUTES),30) \* 60) $(if $(SEED),--seed $(SEED))

fuzz: setup  ## Mutated frames against the controller listener, mutated logins and TLS (FRAMES=1000000, SEED=...)
	$(BIN)/python scripts/fuzz --frames $(or $(FRAMES),1000000) $(if $(SEED),--seed $(SEED))

bench: setup  ## The benchmark table, beside etcd where it is installed
	$(BIN)/python benchmarks/run.py

bench-compare: setup  ## quorate, etcd, ZooKeeper and PySyncObj in turns (apt-get install etcd-server zookeeper; Go)
	$(BIN)/python benchmarks/run.py compare --svg docs/images/latency-against-load.svg

mutants: setup  ## Mutation testing of the core by mutmut, for a night (ONLY='quorate.raft.core.majority*')
	$(BIN)/python -m pip install --quiet --disable-pip-version-check mutmut==3.8.1
	$(BIN)/mutmut run --max-children $(or $(JOBS),2) $(ONLY)
	$(BIN)/mutmut results

clean:  ## Remove the virtual environment and what was built
	rm -rf .venv build mutants .java .import_linter_cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
