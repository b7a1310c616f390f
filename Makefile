# `make help` lists the targets. Each makes its own .venv, reinstalled only when a pin changes.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
SEED ?= 1
SEEDS ?= 20
LIVES ?= 100000
HISTORIES ?= 100000
REQUESTS ?= 20000
RUNS ?= 20
ROUNDS ?= 20
BENCH ?=
OS_FAULTS ?=
LIBRDKAFKA ?=

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
# take minutes: they are marked `slow` and run in `test`, not in `check` (tests/conftest.py).
# What real clients do, once more on three brokers with three replicas of everything.
CLUSTERED := $(addprefix tests/compat/test_,records.py topics.py groups.py offsets.py)
CLIENTS := $(wildcard tests/compat/test_*.py) tests/compat/apache_kafka/test_other_languages.py tests/client_e2e \
	$(addprefix tests/cluster/test_,groups_moved.py hard_times.py)
# Once more with TLS, logins and access rules; those about security have brokers of their own.
SECURED_CLIENTS := $(filter-out $(wildcard $(addprefix tests/compat/test_,tls*.py sasl*.py oauth*.py \
	authorization.py security*.py)),$(CLIENTS))
# The same chance and order each time, so that a failure can be had again; SEED=2 for others.
export SEED
# As containers have it: each worker and each broker would compile all it imports.
unexport PYTHONDONTWRITEBYTECODE
PYTEST = $(PY) -m pytest -q --randomly-seed=$(SEED) --hypothesis-seed=$(SEED)

.PHONY: help demo test check lint fast full peers slow spark bench console-large cluster-clients secured-clients sim sim-bugs histories lives fixture-tests tour fuzz fuzz-locked kills faults txn-bounces client-suites os-faults emptied-disks pipeline-kills union-reads compile clean

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
	@BARNABAS_PURE=1 PYTHONWARNINGS=ignore $(EDITABLE) -e '.[spark,delta,iceberg,s3]'
	@touch $@

$(COMPILED): $(INSTALLED) setup.py $(TYPED) $(TYPED:.pxd=.py)
	@$(PY) setup.py -q build_ext --inplace
	@touch $@

compile: $(COMPILED) ## the hot loops, after an edit

demo: $(COMPILED) ## a broker and three pipelines on Spark, whose counts agree
	@$(MAKE) -s $(SPARK) || echo "Spark could not be installed: the demo goes without pipelines"
	@scripts/java.sh
	@$(PY) -m barnabas demo

check: ## lint, types, import contracts and the fast tests, side by side: under a minute
	@$(MAKE) --no-print-directory -j2 lint fast

lint: $(COMPILED)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

# Two workers more than there are cores: some wait for the disk or for a time to pass.
FAST = $(PYTEST) -n $$(($$(nproc) + 2)) -m "not slow"

fast: $(COMPILED)
	$(FAST)

# Of random examples, histories and worlds `check` tries a share, `test` all.
full: $(COMPILED)
	IN_FULL=1 $(FAST)

# Other people's programs, fetched before a test would have to wait for them.
peers: $(COMPILED)
	@$(PY) -m tests.support.install

# Most of these wait most of the time: for a client's timeout, a session that ends, a rebalance.
WAITING = $(PYTEST) -n $$((4 * $$(nproc))) --dist loadfile --no-loadscope-reorder

slow: $(COMPILED) peers
	$(WAITING) -m slow --ignore=tests/spark
	BROKERS=3 $(WAITING) $(CLUSTERED)
	SECURED=1 $(PYTEST) tests/compat/test_records.py

spark: $(COMPILED) $(SPARK) peers ## format("barnabas") beside Spark's own, on two brokers
	$(PYTEST) -n 2 tests/spark

test: $(SPARK) peers lint full slow spark ## everything; what this machine cannot run is listed at the end

cluster-clients: $(COMPILED) ## all suites of real clients on three brokers, three replicas of everything
	BROKERS=3 $(WAITING) $(CLIENTS)

secured-clients: $(COMPILED) peers ## all suites of real clients over SASL_SSL with SCRAM, on one broker and on three
	SECURED=1 $(WAITING) $(SECURED_CLIENTS)
	SECURED=1 BROKERS=3 $(WAITING) $(SECURED_CLIENTS)

sim: $(COMPILED) ## whole clusters, and workers, on SEEDS seeds each
	$(PY) -m tests.simulator --seeds $(SEEDS)
	SEEDS=$(SEEDS) $(PYTEST) -n auto tests/client/workers/test_histories.py tests/client/workers/test_exactly_once_histories.py

sim-bugs: $(COMPILED) ## each planted bug must be found within 200 seeds
	$(PY) -m tests.simulator --seeds 200 --bugs

histories: $(COMPILED) ## HISTORIES random histories of consumer groups
	HISTORIES=$(HISTORIES) $(PYTEST) -n auto tests/coordinators/test_histories.py

lives: $(COMPILED) ## LIVES random lives of a log against a model
	LIVES=$(LIVES) $(PYTEST) -n auto tests/simulator/test_log_life.py

fixture-tests: $(COMPILED) ## 1,000 tests with the fixture `kafka`, which must leave nothing behind
	FIXTURE_TESTS=1000 $(PYTEST) tests/testing/test_plugin.py

tour: $(COMPILED) ## every chapter of `barnabas tour`, and every claim it makes
	WHOLE_TOUR=1 $(PYTEST) tests/cli/test_tour.py

fuzz: $(COMPILED) ## REQUESTS mutated requests against a broker
	$(PY) -m tests.fuzz --requests $(REQUESTS)

fuzz-locked: $(COMPILED) ## REQUESTS before a login, and as many as a user with few rights
	$(PY) -m tests.fuzz --requests $(REQUESTS) --login before
	$(PY) -m tests.fuzz --requests $(REQUESTS) --login after

kills: $(COMPILED) ## RUNS of kill -9 under load
	$(PY) -m tests.kill --runs $(RUNS)

pipeline-kills: $(COMPILED) $(SPARK) ## ROUNDS of kill -9 at drivers and executors, local and cluster
	$(PY) -m tests.spark.kills --rounds $(ROUNDS)

union-reads: $(COMPILED) $(SPARK) ## 1,000 reads of a table and its topic as one, while both grow
	UNION_READS=$(or $(READS),1000) $(PYTEST) -n 2 tests/spark/lake/test_union.py -k while

faults: $(COMPILED) $(SPARK) ## ROUNDS of each fault on clusters of processes, on a file and on ZooKeeper
	$(PY) -m tests.cluster --rounds $(ROUNDS)

txn-bounces: $(COMPILED) ## ROUNDS of 100,000 records copied in transactions, brokers and copiers killed
	$(PY) -m tests.cluster.copies --rounds $(ROUNDS)

client-suites: $(COMPILED) ## the transactional tests of franz-go, and of librdkafka with LIBRDKAFKA=its built sources
	$(PY) -m tests.compat.client_suites $(if $(LIBRDKAFKA),--librdkafka $(LIBRDKAFKA))

os-faults: $(COMPILED) ## each error at each call site, on one broker and on three; the table in DURABILITY.md
	$(PY) -m tests.os_faults --write $(OS_FAULTS)

emptied-disks: $(COMPILED) $(SPARK) ## ROUNDS of all brokers killed, one disk emptied, all started, per keeper
	$(PY) -m tests.cluster --rounds $(ROUNDS) --kinds all-killed-one-emptied

console-large: $(COMPILED) ## the console on 10,000 topics and 1,000 groups: CPU, size, memory
	$(PY) -m tests.console.large

bench: $(COMPILED) $(SPARK) ## beside Apache Kafka; BENCH='--suite groups', BENCH='--quick'
	$(PY) -m bench $(BENCH)

clean: ## all that make has made
	rm -rf $(VENV) .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find barnabas tests bench \( -name '*.so' -o -name '__pycache__' \) -prune -exec rm -rf {} +
