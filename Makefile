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
# Shows what is fetched and how large it is, and nothing else.
PIP := scripts/install.sh $(PY) -c constraints.txt
# "compat": as a path, in which Spark looks for data sources.
EDITABLE := $(PIP) --no-build-isolation --config-settings editable_mode=compat
TOOLS := $(VENV)/.tools
INSTALLED := $(VENV)/.installed
DEMO := $(VENV)/.demo
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
# By name: otherwise pytest rewrites the assertions of every package that has a plugin, ours too. Ours by
# its module: `-p barnabas` stands for the package, and Python 3.11 may fail to parse what two threads
# import at once ("AST constructor recursion depth mismatch").
PLUGINS := $(addprefix -p ,xdist asyncio randomly timeout hypothesispytest barnabas.testing.plugin)
PYTEST = $(PY) -m pytest -q --disable-plugin-autoload $(PLUGINS) --randomly-seed=$(SEED) --hypothesis-seed=$(SEED)

.PHONY: help demo test check lint fast full peers slow clustered secured spark bench console-large cluster-clients secured-clients sim sim-bugs histories lives fixture-tests tour fuzz fuzz-locked kills faults txn-bounces share-kills client-suites os-faults emptied-disks pipeline-kills union-reads compile clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

$(TOOLS):
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	@echo "installing into $(VENV)"
	@test -e $(INSTALLED) || { $(PYTHON) -m venv $(VENV) && $(PIP) pip setuptools cython; }
	@touch $@

$(INSTALLED): pyproject.toml constraints.txt | $(TOOLS)
	@BARNABAS_PURE=1 PYTHONWARNINGS=ignore $(EDITABLE) -e '.[test]'
	@touch $@

# What the demo uses and no more: neither the tests' packages nor S3 and Delta.
$(DEMO): pyproject.toml constraints.txt | $(TOOLS)
	@BARNABAS_PURE=1 PYTHONWARNINGS=ignore $(EDITABLE) -e '.[console]'
	@BARNABAS_PURE=1 PYTHONWARNINGS=ignore $(EDITABLE) -e '.[console,spark,iceberg]' \
		|| echo "Spark could not be installed: the demo goes without pipelines"
	@touch $@

# Half a gigabyte, and not needed to check an edit.
$(SPARK): $(INSTALLED)
	@echo "installing Spark into $(VENV)"
	@BARNABAS_PURE=1 PYTHONWARNINGS=ignore $(EDITABLE) -e '.[spark,delta,iceberg,s3]'
	@touch $@

$(COMPILED): setup.py $(TYPED) $(TYPED:.pxd=.py) | $(TOOLS)
	@$(PY) setup.py -q build_ext --inplace
	@touch $@

compile: $(COMPILED) ## the hot loops, after an edit

# Packages are fetched while the loops are compiled.
demo: | $(TOOLS) ## a broker and three pipelines on Spark, whose counts agree; KEEP=1 keeps it up
	@$(MAKE) -s -j2 $(COMPILED) $(DEMO)
	@scripts/java.sh
	@$(PY) -m barnabas demo $(if $(KEEP),--keep)

check: ## lint, types, import contracts and the fast tests, side by side: under a minute
	@$(MAKE) --no-print-directory -j2 lint fast

lint: $(INSTALLED) $(COMPILED)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

# One worker more than there are cores: some tests wait for a time to pass. Each imports all tests.
FAST = $(PYTEST) -n $$(($$(nproc) + 1)) -m "not slow"

fast: $(INSTALLED) $(COMPILED)
	$(FAST)

# Of random examples, histories and planted bugs `check` tries a share, `test` all.
full: $(INSTALLED) $(COMPILED)
	IN_FULL=1 $(FAST)

# Other people's programs, fetched before a test would have to wait for them.
peers: $(INSTALLED) $(COMPILED)
	@$(PY) -m tests.support.install

# Most of these wait most of the time: for a client's timeout, a session that ends, a rebalance.
WAITING = $(PYTEST) -n $$((4 * $$(nproc))) --dist loadfile --no-loadscope-reorder

slow: $(INSTALLED) $(COMPILED) peers
	$(WAITING) -m slow --ignore=tests/spark
	@$(MAKE) --no-print-directory -j2 clustered secured

clustered: $(COMPILED) peers
	BROKERS=3 $(WAITING) $(CLUSTERED)

secured: $(COMPILED) peers
	SECURED=1 $(PYTEST) tests/compat/test_records.py

spark: $(INSTALLED) $(COMPILED) $(SPARK) peers ## format("barnabas") beside Spark's own, on two brokers
	$(PYTEST) -n 2 tests/spark

# Side by side: mypy has one thread, and the slow tests wait while Spark computes.
test: $(COMPILED) $(SPARK) peers ## everything; what this machine cannot run is listed at the end
	@$(MAKE) --no-print-directory -j2 lint full
	@$(MAKE) --no-print-directory -j2 slow spark

cluster-clients: $(INSTALLED) $(COMPILED) ## all suites of real clients on three brokers, three replicas of everything
	BROKERS=3 $(WAITING) $(CLIENTS)

secured-clients: $(INSTALLED) $(COMPILED) peers ## all suites of real clients over SASL_SSL with SCRAM, on one broker and on three
	SECURED=1 $(WAITING) $(SECURED_CLIENTS)
	SECURED=1 BROKERS=3 $(WAITING) $(SECURED_CLIENTS)

sim: $(INSTALLED) $(COMPILED) ## whole clusters, and workers, on SEEDS seeds each
	$(PY) -m tests.simulator --seeds $(SEEDS)
	SEEDS=$(SEEDS) $(PYTEST) -n auto tests/client/workers/test_histories.py tests/client/workers/test_exactly_once_histories.py

sim-bugs: $(INSTALLED) $(COMPILED) ## each planted bug must be found within 200 seeds
	$(PY) -m tests.simulator --seeds 200 --bugs

histories: $(INSTALLED) $(COMPILED) ## HISTORIES random histories of consumer groups
	HISTORIES=$(HISTORIES) $(PYTEST) -n auto tests/coordinators/test_histories.py

lives: $(INSTALLED) $(COMPILED) ## LIVES random lives of a log against a model
	LIVES=$(LIVES) $(PYTEST) -n auto tests/simulator/test_log_life.py

fixture-tests: $(INSTALLED) $(COMPILED) ## 1,000 tests with the fixture `kafka`, which must leave nothing behind
	FIXTURE_TESTS=1000 $(PYTEST) tests/testing/test_plugin.py

tour: $(INSTALLED) $(COMPILED) ## every chapter of `barnabas tour`, and every claim it makes
	$(PYTEST) tests/cli/test_tour.py

fuzz: $(INSTALLED) $(COMPILED) ## REQUESTS mutated requests against a broker
	$(PY) -m tests.fuzz --requests $(REQUESTS)

fuzz-locked: $(INSTALLED) $(COMPILED) ## REQUESTS before a login, and as many as a user with few rights
	$(PY) -m tests.fuzz --requests $(REQUESTS) --login before
	$(PY) -m tests.fuzz --requests $(REQUESTS) --login after

kills: $(INSTALLED) $(COMPILED) ## RUNS of kill -9 under load
	$(PY) -m tests.kill --runs $(RUNS)

pipeline-kills: $(INSTALLED) $(COMPILED) $(SPARK) ## ROUNDS of kill -9 at drivers, executors, brokers and stores, local and cluster
	$(PY) -m tests.spark.kills --rounds $(ROUNDS)

union-reads: $(INSTALLED) $(COMPILED) $(SPARK) ## 1,000 reads of a table and its topic as one, while both grow
	UNION_READS=$(or $(READS),1000) $(PYTEST) -n 2 tests/spark/lake/test_union.py -k while

faults: $(INSTALLED) $(COMPILED) $(SPARK) ## ROUNDS of each fault on clusters of processes, on a file and on ZooKeeper
	$(PY) -m tests.cluster --rounds $(ROUNDS)

txn-bounces: $(INSTALLED) $(COMPILED) ## ROUNDS of 100,000 records copied in transactions, brokers and copiers killed
	$(PY) -m tests.cluster.copies --rounds $(ROUNDS)

share-kills: $(INSTALLED) $(COMPILED) ## ROUNDS of kill -9 at brokers and members of a share group
	$(PY) -m tests.cluster.share_kills --rounds $(ROUNDS)

client-suites: $(INSTALLED) $(COMPILED) ## tests of transactions and share groups of franz-go, and of librdkafka with LIBRDKAFKA=its built sources
	$(PY) -m tests.compat.client_suites $(if $(LIBRDKAFKA),--librdkafka $(LIBRDKAFKA))

os-faults: $(INSTALLED) $(COMPILED) ## each error at each call site, on one broker and on three; the table in DURABILITY.md
	$(PY) -m tests.os_faults --write $(OS_FAULTS)

emptied-disks: $(INSTALLED) $(COMPILED) $(SPARK) ## ROUNDS of all brokers killed, one disk emptied, all started, per keeper
	$(PY) -m tests.cluster --rounds $(ROUNDS) --kinds all-killed-one-emptied

console-large: $(INSTALLED) $(COMPILED) ## the console on 10,000 topics and 1,000 groups: CPU, size, memory
	$(PY) -m tests.console.large

bench: $(INSTALLED) $(COMPILED) $(SPARK) ## beside Apache Kafka; BENCH='--suite groups', BENCH='--quick'
	$(PY) -m bench $(BENCH)

clean: ## all that make has made
	rm -rf $(VENV) .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find barnabas tests bench \( -name '*.so' -o -name '__pycache__' \) -prune -exec rm -rf {} +
