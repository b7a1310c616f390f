# `make help` lists the targets. Each makes its own .venv, reinstalled only when a pin changes.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
SEEDS ?= 20
LIVES ?= 100000
REQUESTS ?= 20000
RUNS ?= 20
ROUNDS ?= 20
BENCH ?=

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install -q --disable-pip-version-check -c constraints.txt
# "compat": as a path, in which Spark looks for data sources.
EDITABLE := $(PIP) --no-build-isolation --config-settings editable_mode=compat
INSTALLED := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
SPARK := $(VENV)/.spark
TYPED := $(shell find barnabas -name '*.pxd')

# Real clients, other languages, kills, fuzzing, and all that starts many processes or floods a broker
# take minutes: they run in `test`, not in `check`. So do random histories in full: `check` has a share.
SLOW := tests/clients tests/client_suite tests/cluster tests/peers tests/kill tests/fuzz \
	$(addprefix tests/cli/test_,groups.py log.py logs_told.py pipeline.py topics.py up.py usage.py) \
	$(addprefix tests/broker/test_,hostile.py hostile_groups.py log_life.py) \
	$(addprefix tests/pipeline/test_,mirror.py stream_reader.py writing.py) tests/client/test_driver.py \
	tests/simulator/test_bugs.py
SLOW_HERE = $(wildcard $(SLOW))
# What real clients do, once more on three brokers with three replicas of everything.
CLUSTERED := $(addprefix tests/clients/test_,records.py topics.py groups.py offsets.py)
# What tries a share of its random examples in `check`, and all of them in `test`.
SHARES := $(addprefix tests/,assignment cli/test_formats.py config log/test_recovery.py pipeline/test_offsets.py \
	pipeline/test_pushdown.py wire) $(addprefix tests/client/test_,accumulator.py cores.py message_loops.py session.py)
PYTEST = $(PY) -m pytest -q

.PHONY: help demo test check lint fast slow spark bench sim sim-bugs lives fuzz kills faults pipeline-kills compile clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	@echo "installing into $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) pip setuptools cython
	@BARNABAS_PURE=1 PYTHONWARNINGS=ignore $(EDITABLE) -e '.[test]'
	@touch $@

# Half a gigabyte, and not needed to check an edit.
$(SPARK): $(INSTALLED)
	@echo "installing Spark into $(VENV)"
	@BARNABAS_PURE=1 PYTHONWARNINGS=ignore $(EDITABLE) -e '.[spark,delta]'
	@touch $@

$(COMPILED): $(INSTALLED) setup.py $(TYPED) $(TYPED:.pxd=.py)
	@$(PY) setup.py -q build_ext --inplace
	@touch $@

compile: $(COMPILED) ## the hot loops, after an edit

demo: $(COMPILED) ## a broker and three pipelines on Spark, whose counts agree
	@$(MAKE) -s $(SPARK) || echo "Spark could not be installed: the demo goes without pipelines"
	@scripts/java.sh
	@$(PY) -m barnabas demo

check: lint fast ## lint, types, import contracts and the fast tests: under a minute

lint: $(COMPILED)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

fast: $(COMPILED)
	$(PYTEST) -n auto $(SLOW:%=--ignore=%) --ignore=tests/spark --ignore=tests/zookeeper

slow: $(COMPILED)
	$(PYTEST) -n 2 --dist loadfile $(SLOW_HERE)
	HISTORIES=2000 $(PYTEST) -n 2 tests/coordinators/test_histories.py
	IN_FULL=1 $(PYTEST) -n 2 $(SHARES)
	SEEDS=100 $(PYTEST) -n 2 tests/simulator/test_worlds.py
	BROKERS=3 $(PYTEST) -n 2 --dist loadfile $(CLUSTERED)

spark: $(COMPILED) $(SPARK) ## format("barnabas") beside Spark's own, on two brokers
	$(PYTEST) tests/spark
# ZooKeeper's server comes with Spark's wheel.
	$(PYTEST) tests/zookeeper
	$(PYTEST) tests/cluster/test_faults.py -k zookeeper

test: $(SPARK) check slow spark ## everything; what this machine cannot run is listed at the end

sim: $(COMPILED) ## whole clusters, and workers, on SEEDS seeds each
	$(PY) -m tests.simulator --seeds $(SEEDS)
	SEEDS=$(SEEDS) $(PYTEST) -n auto tests/client/workers/test_histories.py

sim-bugs: $(COMPILED) ## each planted bug must be found within 200 seeds
	$(PY) -m tests.simulator --seeds 200 --bugs

lives: $(COMPILED) ## LIVES random lives of a log against a model
	LIVES=$(LIVES) $(PYTEST) -n auto tests/simulator/test_log_life.py

fuzz: $(COMPILED) ## REQUESTS mutated requests against a broker
	$(PY) -m tests.fuzz --requests $(REQUESTS)

kills: $(COMPILED) ## RUNS of kill -9 under load
	$(PY) -m tests.kill --runs $(RUNS)

pipeline-kills: $(COMPILED) $(SPARK) ## ROUNDS of kill -9 at drivers and executors, local and cluster
	$(PY) -m tests.spark.kills --rounds $(ROUNDS)

faults: $(COMPILED) $(SPARK) ## ROUNDS of each fault on clusters of processes, on a file and on ZooKeeper
	$(PY) -m tests.cluster --rounds $(ROUNDS)

bench: $(COMPILED) $(SPARK) ## beside Apache Kafka; BENCH='--suite groups', BENCH='--quick'
	$(PY) -m bench $(BENCH)

clean: ## all that make has made
	rm -rf $(VENV) .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find barnabas tests bench \( -name '*.so' -o -name '__pycache__' \) -prune -exec rm -rf {} +
