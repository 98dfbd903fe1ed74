# Everything sets itself up: a virtual environment in the checkout with locked dependencies.
PYTHON ?= python3
FILE ?= README.md
BIN := .venv/bin

.PHONY: help setup checkers demo test quick shuffled check lint format format-check types simulate chaos nemesis nemesis-brokers fuzz bench bench-compare mutants clean

help:  ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# pip looks at every file that an index ever had of a package, uv takes a fifth of the time. Where uv reaches no index, pip may,
# by settings of its own. What is never imported is never compiled, which is most of it.
install = $(BIN)/uv pip install --quiet --system-certs --python $(BIN)/python $(1) || $(pip) $(1)
pip = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

.venv/.installed: requirements-test.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "quorate needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(pip) uv
	@# There is no wheel of PySpark, and uv would make one.
	$(pip) --no-deps $$(grep ^pyspark== $<)
	$(call install,-r $<)
	$(call install,--no-deps --no-build-isolation -e .)
	@touch $@

.venv/.checked: requirements-dev.lock .venv/.installed
	$(call install,-r $<)
	@touch $@

setup: .venv/.installed  ## Virtual environment with everything that the programs and the tests need

checkers: .venv/.checked  ## The same with ruff, mypy, pyright and import-linter

demo: setup  ## An operator's day: three real nodes, a stock client, a kill -9, moves, a report (FILE=... to choose the input, DATA=... to keep the nodes' folders)
	$(BIN)/quorate demo --file $(FILE) $(if $(DATA),--data $(DATA))

test: setup  ## The tests but the slowest (JOBS=4 workers, half of which mostly wait)
	$(BIN)/python -m pytest -n $(or $(JOBS),4) -m "not slow"

quick: setup  ## The tests without real time, real processes and whole clusters (JOBS=2 workers)
	$(BIN)/python -m pytest -n $(or $(JOBS),2) -m "not slow and not real_time and not long"

shuffled: setup  ## The quick tests in an order that is drawn (SEED=... replays it, MANY=1 adds all property tests, with 100 examples)
	$(BIN)/python -m pytest -n $(or $(JOBS),2) \
		-m "not slow and ($(if $(MANY),hypothesis or )not real_time and not long)" $(if $(MANY),--hypothesis-profile=many) \
		-o addopts="--import-mode=importlib --strict-markers -ra" $(if $(SEED),--randomly-seed $(SEED))

check: lint format-check types  ## Lint, format, types and every test, as in CI
	$(BIN)/python -m pytest -n $(or $(JOBS),4)

lint: checkers  ## ruff, and import-linter
	$(BIN)/ruff check .
	$(BIN)/lint-imports

format: checkers  ## Rewrite to the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

format-check: checkers  ## Is everything formatted?
	$(BIN)/ruff format --check .

types: checkers  ## mypy --strict
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
