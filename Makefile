# Every target sets up what it needs; `make help` lists them.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
export PYTHONPATH := tests
# Bytecode stays out of the source folders, and programs that tests start need not compile again.
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/bytecode
# Where this is set, each of the hundreds of programs that tests start compiles all of Berth anew.
unexport PYTHONDONTWRITEBYTECODE

# $(call need,COMMAND THAT SUCCEEDS IF IT IS THERE,DEBIAN PACKAGE): installed when root, else named.
define need
	@$(1) >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing the Debian package $(2)"; \
	    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y $(2) >/dev/null; } \
	      || { echo "cannot install the Debian package $(2)" >&2; exit 1; }; \
	  else echo "missing: please install the Debian package $(2)" >&2; exit 1; fi; }
endef

# The same, for what only some tests need: without it they are skipped, and say so.
define want
	@$(1) >/dev/null 2>&1 || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || { \
	  echo "installing the Debian package $(2)"; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(2) >/dev/null; } \
	    || echo "cannot install the Debian package $(2); the tests that need it are skipped"; }
endef

.PHONY: help setup demo chaos e2e-node e2e-install test thorough test-gpu check lint types fast format crds cluster clean bench bench-agent bench-openb bench-decide fuzz parity images manifests release kind kind-delete

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make the virtual environment

$(READY): pyproject.toml .constraints.txt
	$(call need,$(PYTHON) --version,python3)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Berth needs Python 3.11 or newer; say which with PYTHON=..." >&2; exit 1; }
	$(call need,$(PYTHON) -c "import ensurepip$(,) venv",python3-venv)
	$(call need,test -d /etc/ssl/certs && ls /etc/ssl/certs/*.pem,ca-certificates)
	@echo "setting up $(VENV) (about half a minute the first time)"
	@$(PYTHON) -m venv $(VENV)
	@PIP_CONSTRAINT=.constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --editable '.[operator,agent,dev]'
	@touch $@

demo: $(READY) ## three simulated GPU nodes on a real API server; KEEP=1 stays up
	@$(BIN)/python -m e2e.demo $(if $(KEEP),--keep)

e2e-node: $(READY) ## N pods come and go on a real node, by each way of delivery; WAY=... SEED=... for one again
	$(call want,runc --version,runc)
	@$(BIN)/python -m e2e.node_rounds $(if $(N),--pods $(N)) $(if $(WAY),--way $(WAY)) \
	  $(if $(SEED),--seed $(SEED)) $(ARGS)

e2e-install: $(READY) ## a version on a real node: installed, upgraded and removed again; KUBERNETES=1.34
	$(call want,runc --version,runc)
	$(call want,buildah --version,buildah)
	$(call want,mmdebstrap --version,mmdebstrap)
	@BERTH_FULL=1 BERTH_SECONDS_AWAY=300 BERTH_KUBERNETES=$(KUBERNETES) $(BIN)/python -m pytest -q tests/release $(ARGS)

chaos: $(READY) ## break operators for N rounds on a real API server; SEED=... SCENARIO=... play one again
	@$(BIN)/python -m e2e.chaos $(if $(N),--rounds $(N)) $(if $(SEED),--seed $(SEED)) \
	  $(if $(SCENARIO),--scenario $(SCENARIO)) $(ARGS)

# All in one run: while some tests wait for the API server, others compute. Files in their own order: else those
# of few tests come last, and they are the longest. Thorough tests break leaders and upgrade nodes: they compute more.
EVERYTHING := --dist loadfile --no-loadscope-reorder

test: lint types ## all that must hold, on the real API server too; ARGS=tests/... for some of it
	$(call want,runc --version,runc)
	@$(BIN)/python -m pytest $(or $(ARGS),-n 4 $(EVERYTHING) -m "not thorough")

thorough: $(READY) ## what `make test` plays in short, at length: chaos, installations, properties; CI has both
	$(call want,runc --version,runc)
	$(call want,buildah --version,buildah)
	$(call want,mmdebstrap --version,mmdebstrap)
	@BERTH_FULL=1 $(BIN)/python -m pytest $(or $(ARGS),-n 2 $(EVERYTHING) -m "thorough or property")

check: lint types fast ## lint, types, import contracts, fast tests

fast: $(READY) ## the tests that need no cluster, on all cores
	@$(BIN)/python -m pytest -q -n auto -m "not cluster and not slow"

test-gpu: $(READY) ## what every probe promises, on the NVIDIA cards of this machine
	@BERTH_TEST_GPU=1 $(BIN)/python -m pytest tests/agent/test_probes.py tests/agent/test_real_cards.py -k real

lint: $(READY) ## ruff, import contracts, the rules of the house
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "make format would change files" >&2; exit 1; }
	@$(BIN)/lint-imports --cache-dir .import_linter_cache > build/import-contracts.txt 2>&1 \
	  || { cat build/import-contracts.txt; exit 1; }
	@$(BIN)/python -m support.house
	@$(BIN)/python -m berth_crds check crds

types: $(READY) ## mypy, strict, on the programs and on the tests
	@$(BIN)/mypy
	@$(BIN)/mypy tests

bench: $(READY) ## measure on a real API server, all or SCENARIO=fill, fractions, stream, churn, answers, restart, growth, agents; ARGS=--help
	@$(BIN)/python -m bench $(SCENARIO) $(if $(RUNS),--runs $(RUNS)) $(ARGS)

bench-openb: $(READY) ## GPU given out on the openb trace, by strategy; TRACE=default SEEDS=0-9
	@$(BIN)/python -m bench.openb $(if $(TRACE),--trace $(TRACE)) $(if $(SEEDS),--seeds $(SEEDS)) \
	  $(if $(STRATEGY),--strategy $(STRATEGY)) $(ARGS)

bench-agent: $(READY) ## memory, processor and writes of an idle agent; SECONDS=300, WAYS=nri,cdi,plugin
	@$(BIN)/python -m bench.agent $(if $(SECONDS),--seconds $(SECONDS)) $(if $(WAYS),--ways $(WAYS)) $(ARGS)

bench-decide: $(READY) ## time of one decision, from 100 to 15,000 nodes; ARGS="--nodes 100"
	@$(BIN)/python -m bench.decide $(ARGS)

fuzz: $(READY) ## draw absurd pods for MINUTES and see that none holds the operator up; SEED=... plays again
	@$(BIN)/python -m bench.fuzz $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(ARGS)

parity: $(READY) ## ask kube-scheduler and Berth where N random pods may run; SEED=... draws the same again
	@$(BIN)/python -m parity $(if $(N),--pods $(N)) $(if $(SEED),--seed $(SEED)) $(ARGS)

images: $(READY) ## images of both programs, by docker, podman or buildah; BASE=IMAGE, ARGS=--help
	@$(BIN)/python -m release.images $(if $(BASE),--base $(BASE)) $(ARGS)

release: $(READY) ## all files of VERSION, with checksums, in build/release; BASE=IMAGE, ARGS=--help
	@$(BIN)/python -m release $(VERSION) $(if $(BASE),--base $(BASE)) $(ARGS)

kind: $(READY) ## a cluster in containers with Berth on it, by docker or podman; ARGS=--help
	@$(BIN)/python -m release.in_kind $(ARGS)

kind-delete: $(READY) ## remove that cluster
	@$(BIN)/python -m release.in_kind --delete $(ARGS)

manifests: $(READY) ## write the version into the chart, and manifests/kustomize/berth.yaml from it
	@$(BIN)/python -m release.rendering

format: $(READY) ## let ruff format and mend what it can
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format .

crds: $(READY) ## write crds/*.yaml, the wire structs and the plain manifests from the models
	@$(BIN)/python -m berth_crds write crds
	@$(BIN)/python -m release.rendering

cluster: $(READY) ## a cluster to try Berth on, with a node, operator and agent; WORKER=w1 makes the node a real one
	@$(BIN)/python -m e2e.by_hand $(if $(WORKER),--worker $(WORKER))

clean: ## remove what was made in this folder; the cluster's programs stay in the cache
	@rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

lint types fast test thorough: | build
build:
	@mkdir -p build

, := ,
