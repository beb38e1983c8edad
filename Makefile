# Braid's commands. `make help` prints them. Every target that runs anything sets the checkout up first.

.DEFAULT_GOAL := help
CHECKS := check-types check-format check-lint check-layering check-protos check-compose check-reference check-boards check-console check-site
.PHONY: help demo test test-all setup check checks $(CHECKS) quick test-for slow-tests protos protos-release reference site docs console sim fuzz chaos soak bench up down clean hooks lock sbom audit etcd installed prepared

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
RUN := $(BIN)/python
SOURCES := $(wildcard braid services pipelines console devmesh demo testbed bench examples tools tests)
QUICKLY := -m "not real and not slow" --sim-seeds 2 --hypothesis-profile quick
# pytest keeps what it made of a test module, as Python does: else each of its processes makes all of it anew.
export PYTHONDONTWRITEBYTECODE :=
TIERS := $(wildcard tests/unit tests/contract tests/simulation tests/integration tests/e2e)

# Says which part of Docker is missing, and what does without it.
define need_docker
without() { echo "make $(1): $$1; a mesh without Docker: $(BIN)/braid dev" >&2; exit 1; }; \
command -v docker >/dev/null || without "docker is missing: https://docs.docker.com/engine/install"; \
docker compose version >/dev/null 2>&1 || without "docker has no compose: https://docs.docker.com/compose/install"; \
docker info >/dev/null 2>&1 || without "docker does not answer: start its daemon, or Docker Desktop"
endef

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup ## run the main job on real Kafka, print a verdict (KEEP=1 leaves it running; STORE=etcd)
	@$(RUN) -m demo $(if $(KEEP),--keep) $(if $(STORE),--store $(STORE))

test: installed ## run every check and every test tier (half an hour on two cores)
	@$(RUN) -m tools.suite --check --prepare $(TIERS)

test-all: installed ## `make test` and the tests that run for hours
	@$(RUN) -m tools.suite --check --prepare --extended $(TIERS)

quick: setup ## unit and contract tests that are quick, simulation smoke (a minute)
	@$(RUN) -m pytest -q --numprocesses=auto --dist=worksteal $(QUICKLY) tests/unit tests/contract tests/simulation

test-for: setup ## run unit and contract tests of PATHS="…", or of what differs from HEAD
	@$(RUN) -m tools.touched $(PATHS)

slow-tests: setup ## measure which tests are too slow for `make quick`, and print the slowest
	@$(RUN) -m tools.slow_tests

check: setup ## format, lint, types, layering, protos, reference pages, site; no tests
	@$(MAKE) --no-print-directory checks

# The suite starts them at idle priority, once the checkout is set up. There a look at Java would run out of its time.
checks:
	@$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=target $(CHECKS) && \
		echo "check: format, lint, types, layering, protos, reference pages and site are fine"

check-format:
	@$(BIN)/ruff format --check --quiet $(SOURCES) || { echo "run: $(BIN)/ruff format $(SOURCES)"; exit 1; }

check-lint:
	@$(BIN)/ruff check --quiet $(SOURCES)

check-types:
	@$(BIN)/mypy --no-error-summary $(SOURCES)

check-layering:
	@$(RUN) -m tools.layering

check-protos:
	@$(RUN) -m tools.protos check
	@$(BIN)/buf lint
	@$(BIN)/buf breaking --against protos/released.binpb

check-compose:
	@$(RUN) -m tools.compose check

check-reference:
	@$(RUN) -m tools.reference check

check-boards:
	@$(RUN) -m tools.boards check

check-console:
	@$(RUN) -m tools.console_page check

check-site:
	@$(RUN) -m tools.site check

setup: ## make .venv from the lock, check Java, resolve Kafka's jars (does nothing that is done)
	@test -n "$(PYTHON)" || { echo "Braid needs Python 3.11 or newer: sudo apt-get install python3 python3-venv" \
		"(Debian, Ubuntu), sudo dnf install python3.12 (Fedora), brew install python (macOS)" >&2; exit 1; }
	@$(PYTHON) -m tools.setup

# Two at once: packages take one core and the network, and etcd's build on a fresh machine takes what is left.
installed:
	@$(MAKE) --no-print-directory --jobs=2 setup etcd

# What tests of real processes need besides. The suite asks for it beside unit tests, once the checkout is set up.
prepared:
	@$(RUN) -m testbed.prometheus.binaries >/dev/null
	@$(RUN) -m testbed.prometheus.alertmanager >/dev/null
	@$(RUN) -m devmesh.archives.spark

etcd: ## build etcd, unless a sound one is installed (needs no packages)
	@test -z "$(PYTHON)" || $(PYTHON) -m devmesh.toolchain.etcd_binary >/dev/null

protos: setup ## generate Python from all protos
	@$(RUN) -m tools.protos generate

protos-release: setup ## write the image that later protos must stay compatible with
	@$(RUN) -m tools.protos release

reference: setup ## write docs/reference from protos, command line, settings, errors, limits and metrics
	@$(RUN) -m tools.reference write

site: setup ## build the documentation site into build/site (asks no network)
	@$(RUN) -m tools.site build

console: setup ## build the console's page into console/static (obtains Node and its packages)
	@$(RUN) -m tools.console_page build

docs: setup ## show the documentation site on this machine, and follow changes of its pages
	@$(RUN) -m tools.site serve

sim: setup ## simulate: SEED=n repeats one run, SEEDS=n runs many; PLAN=losing cuts clusters
	@test -e tests/simulation/__main__.py || { echo "make sim: there is no simulation yet" >&2; exit 1; }
	@$(RUN) -m tests.simulation $(if $(PLAN),--plan $(PLAN)) $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),200))

fuzz: setup ## call every RPC as a hostile caller would for MINUTES=n (SEED=n: of the first round)
	@$(RUN) -m tests.simulation.fuzzing --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED))

chaos: setup ## throw faults at a real mesh for MINUTES=n (SEED=n, GROUND=brokers|etcd|disks|whole)
	@$(RUN) -m tests.e2e.chaos --minutes $(or $(MINUTES),3) $(if $(SEED),--seed $(SEED)) $(if $(GROUND),--ground $(GROUND))

soak: setup ## work at a mesh for HOURS=n; judges memory, descriptors, tasks, event loops
	@$(RUN) -m tests.e2e.soak --hours $(or $(HOURS),1)

bench: setup ## measure against peers (ONLY=produce; QUICK=1: a trial; AGAINST=commit: then and now)
	@$(RUN) -m bench$(if $(AGAINST),.against $(AGAINST)) $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick)

up: ## start the mesh with docker compose (INSECURE=1: without certificates)
	@$(call need_docker,up)
	@docker compose -f compose.yaml $(if $(INSECURE),-f compose.insecure.yaml) up --build --detach --wait
	@$(if $(INSECURE),$(SAY_PLAIN),$(TAKE_CERTIFICATE))

SAY_PLAIN := echo "make up: the endpoint is 127.0.0.1:7401; every program that reaches it may do everything"
# A file that is copied out of a container belongs to the user who copies it, and keeps its mode.
define TAKE_CERTIFICATE
mkdir -p -m 700 .braid && docker compose cp certs:/etc/braid/tls/me/. .braid/compose \
&& echo "make up: the endpoint is 127.0.0.1:7401. To use it:" \
&& echo "export BRAID_ENDPOINT=127.0.0.1:7401 BRAID_TLS_CERTIFICATE=$(CURDIR)/.braid/compose/certificate.pem \\" \
&& echo "  BRAID_TLS_KEY=$(CURDIR)/.braid/compose/key.pem BRAID_TLS_CA=$(CURDIR)/.braid/compose/ca.pem"
endef

down: ## stop what `make up` started (its volumes stay)
	@$(call need_docker,down)
	@docker compose --profile spark --profile observability down

hooks: setup ## check changed files and messages before each commit (pre-commit)
	@$(BIN)/pre-commit install

lock: setup ## refresh requirements/*.txt from pyproject.toml (upgrades what may move)
	@$(RUN) -m tools.lock

sbom: setup ## write what a release is made of (requirements/*.cdx.json), from the locks
	@$(RUN) -m tools.sbom write

audit: setup ## ask PyPI for known vulnerabilities of all locked packages; 3: could not ask
	@$(RUN) -m tools.vulnerabilities

clean: ## remove what builds and runs left behind (keeps .venv, .braid and the user's cache)
	@rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .cache
	@find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
