# One target per habit, the same for people and CI. `make` alone lists them.
#
#   make run ARGS="--data /var/tmp/show"      any flag of `tidegate serve`
#   make sim SEED=4711 STORE=stream           replay one seed
#   make bench-ledger BENCH="--cases single"  any flag of `storm bench-ledger`

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
export PATH := $(HOME)/.cargo/bin:$(PATH)

# Where cargo builds; absolute, because some commands run in a folder of their own.
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
export CARGO_TARGET_DIR := $(TARGET)
ifdef CI
# Each run builds once, so incremental builds would only cost time.
export CARGO_INCREMENTAL := 0
endif

ARGS ?=
BENCH ?=
SEED ?=
WORLD ?=
STORE ?=
SIM_ARGS = $(if $(WORLD),--world $(WORLD)) $(if $(STORE),--store $(STORE)) $(if $(SEED),--seed $(SEED))
RUNS ?= 3
FUZZ_SECONDS ?= 30
KILLS ?= 1000
SHOWS ?= 100
PACKAGES ?= journal shard ledger machines
FILES ?=

# What `make test` printed, stage by stage.
LOGS := $(TARGET)/stages
STAGE := scripts/stage.sh $(LOGS)
SETUP := scripts/setup.sh
# All crates but the simulators. They turn on planted bugs (crates/planted), which no other build may contain.
PRODUCTION := --workspace --exclude tidegate-sim --exclude counter-sim
# What builds the server for the tests from outside: as it is released but for the optimiser, without what only tests
# turn on. `make test` takes what its second stage has built, which differs in that alone: to build all crates once more
# took it ten minutes, and that a release has none of it is what lint looks at.
BUILD_SERVER ?= cargo build $(PRODUCTION) --bin tidegate

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##------------------------------------------------------------------------------------------------ every day

.PHONY: run
run: release ## build and serve config/dev.toml on loopback (ARGS="--data DIR --http ADDR --config FILE ...")
	$(TARGET)/release/tidegate serve $(if $(filter --config%,$(ARGS)),,--config config/dev.toml) $(ARGS)

.PHONY: release
release: ## build the server and the load generator, optimised
	@$(SETUP) first_build
	cargo build --release --bin tidegate --bin storm

.PHONY: deb
deb: release ## a Debian package, in target/debian
	@$(SETUP) package
	mkdir -p $(TARGET)/release/completions
	rm -rf $(TARGET)/release/man
	$(TARGET)/release/tidegate man $(TARGET)/release/man
	$(TARGET)/release/tidegate completions bash > $(TARGET)/release/completions/tidegate
	cargo deb --package tidegate --no-build --strip

.PHONY: test
test: setup ## everything that must hold before a merge, from nothing to the end
	@rm -rf $(LOGS)
	@$(STAGE) "1/6 lint" $(MAKE) lint
	@# One build for all of them: each other choice of crates would be one more.
	@$(STAGE) "2/6 unit, property, process and doc tests, simulation (some hundred seeds, planted bugs), fuzz corpora" \
		cargo test --no-fail-fast --workspace -- --skip survives_kills
	@$(STAGE) "3/6 kill -9 of the real binary, 50 times for the ledger, MQTT, and queues" $(MAKE) kill KILLS=50
	@$(STAGE) "4/6 loom: every interleaving of the rings and of the table of users" $(MAKE) loom
	@$(STAGE) "5/6 the doors: README as printed, schemathesis, deploy/, linearizability" \
		$(MAKE) doors deploy-files linearizability BUILD_SERVER=true
	@$(STAGE) "6/6 real clients of MQTT, a browser, and the client libraries" \
		$(MAKE) clients client-libraries BUILD_SERVER=true
	@scripts/summary.sh $(LOGS)

.PHONY: lint
lint: setup ## rustfmt, clippy, rustdoc, shellcheck, the width of lines, what a release must not contain
	cargo fmt --all --check
	cd fuzz && cargo fmt --check
	cd tests/mutants && cargo fmt --check
	cargo clippy --manifest-path tests/mutants/Cargo.toml --target-dir target/mutants/tool --all-targets -- -D warnings
	cargo clippy --workspace --all-targets --all-features -- -D warnings
	@# Again as it is released: without what only tests turn on.
	cargo clippy --workspace -- -D warnings
	$(MAKE) doc
	@scripts/released.sh
	@scripts/columns.sh
	@$(SETUP) python
	.venv/bin/shellcheck .ci/run scripts/*.sh tests/doors/*.sh tests/doors/clients/*.sh deploy/debian/postinst

.PHONY: format
format: setup ## rustfmt over the whole tree
	cargo fmt --all
	cd fuzz && cargo fmt
	cd tests/mutants && cargo fmt

.PHONY: doc
doc: setup ## the API documentation of all crates, warnings as errors
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

##------------------------------------------------------------------------------------------------ proof

.PHONY: sim
sim: setup ## simulate until stopped, or SEED=n (WORLD=ledger, gateway, queue or links; STORE=local, stream or both)
	cargo run --release -p tidegate-sim -- $(SIM_ARGS)

.PHONY: sim-test
sim-test: setup
	cargo test -p tidegate-sim -p counter-sim -- --nocapture

.PHONY: kill
kill: setup ## kill -9 the server under load and compare every acknowledged outcome (KILLS=n)
	TIDEGATE_KILLS=$(KILLS) cargo test --workspace --no-fail-fast --test kill --test mqtt_kill \
		--test queue_kill -- --nocapture

.PHONY: loom
loom: setup ## model check the rings, and the table of users
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(TARGET)/loom cargo test --release -p tidegate-rings -p tidegate-frequency \
		--lib loom_

.PHONY: miri
miri: setup ## interpret the unsafe code, looking for undefined behaviour (nightly)
	@$(SETUP) miri
	cargo +nightly miri test -p tidegate-rings -p tidegate-shard --lib

.PHONY: fuzz
fuzz: setup ## run each fuzz target FUZZ_SECONDS (30) long
	@$(SETUP) fuzz
	scripts/fuzz.sh $(FUZZ_SECONDS)

.PHONY: fuzz-replay
fuzz-replay: setup ## the seeds and earlier finds of the fuzzer, without it
	cargo test -p tidegate-hostile

.PHONY: doors
doors: setup ## the README's commands as printed, and schemathesis against /openapi.json
	@$(SETUP) python
	$(BUILD_SERVER)
	tests/doors/run.sh $(TARGET)/debug/tidegate

.PHONY: deploy-files
deploy-files: setup ## the dashboard, alerts and filter of deploy/ in real Prometheus, fail2ban and HAProxy
	@$(SETUP) python
	@$(SETUP) watchers
	$(BUILD_SERVER)
	.venv/bin/python tests/deploy/run.py $(TARGET)/debug/tidegate

.PHONY: linearizability
linearizability: setup ## histories of concurrent clients over kill -9, checked by Porcupine (SHOWS=100)
	@$(SETUP) golang
	$(BUILD_SERVER)
	cd tests/linearizability && go test ./... && for workers in 1 2; do \
		go run . --binary $(TARGET)/debug/tidegate --shows $(SHOWS) --workers $$workers $(if $(SEED),--seed $(SEED)); \
	done

.PHONY: clients
clients: setup ## paho, mosquitto's tools, mqtt.js, boto3 and AWS's SDK for JavaScript, and the voting page in Chromium
	@$(SETUP) python
	@$(SETUP) clients
	$(BUILD_SERVER)
	.venv/bin/python tests/doors/clients/run.py $(TARGET)/debug/tidegate

.PHONY: mutants
mutants: setup ## try the mutants of cargo-mutants by unit tests and the simulator (PACKAGES="journal", FILES="scan.rs")
	@$(SETUP) mutants
	scripts/mutants.sh "$(PACKAGES)" "$(FILES)"

.PHONY: client-libraries
client-libraries: setup ## the clients for Python, TypeScript, Go and C against the server, over kill -9; their examples
	@$(SETUP) libraries
	$(BUILD_SERVER)
	python3 tests/clients/run.py $(TARGET)/debug/tidegate

.PHONY: clients-generate
clients-generate: setup ## make the types of the client libraries from /openapi.json again
	@$(SETUP) golang
	$(BUILD_SERVER)
	python3 tests/clients/run.py $(TARGET)/debug/tidegate generate

##------------------------------------------------------------------------------------------------ speed

.PHONY: bench
bench: bench-ledger bench-accounts bench-gateway ## all benches

.PHONY: bench-ledger
bench-ledger: release ## the ledger beside Redis and PostgreSQL; writes target/bench/ledger.json (RUNS=3)
	@$(SETUP) redis
	@$(SETUP) postgres
	RUNS=$(RUNS) $(TARGET)/release/storm bench-ledger --tidegate $(TARGET)/release/tidegate --out target/bench $(BENCH)

.PHONY: bench-queue
bench-queue: release ## queues beside RabbitMQ, NATS, Redis, beanstalkd, ElasticMQ (RUNS=3, BENCH="--cases sends")
	@for peer in redis rabbitmq beanstalkd nats elasticmq; do $(SETUP) $$peer; done
	RUNS=$(RUNS) $(TARGET)/release/storm bench-queue --tidegate $(TARGET)/release/tidegate --out $(TARGET)/bench $(BENCH)

.PHONY: bench-pacer
bench-pacer: release ## bids beside a banker in Redis and a pacer in Go; writes target/bench/pacer.json (RUNS=3)
	@for peer in redis pacer_go; do $(SETUP) $$peer; done
	RUNS=$(RUNS) $(TARGET)/release/storm bench-pacer --tidegate $(TARGET)/release/tidegate --out target/bench $(BENCH)

.PHONY: bench-ids
bench-ids: release ## a ledger that has seen IDS=1e8 ids (1e9: 18 GB of disk, 7 GB memory); writes target/bench/ids.json
	cargo build --release --example make_ids -p tidegate-ledger
	$(TARGET)/release/storm bench-ids --tidegate $(TARGET)/release/tidegate \
		--make-ids $(TARGET)/release/examples/make_ids --out target/bench $(BENCH)

.PHONY: bench-accounts
bench-accounts: release ## opening, memory and restart with ACCOUNTS=10000000; writes target/bench/accounts.json
	$(TARGET)/release/storm bench-accounts --tidegate $(TARGET)/release/tidegate --out target/bench $(BENCH)

.PHONY: bench-gateway
bench-gateway: release ## MQTT beside Mosquitto and mochi-mqtt; writes target/bench/gateway.json (RUNS=3)
	@$(SETUP) mosquitto
	@$(SETUP) mochi
	RUNS=$(RUNS) $(TARGET)/release/storm bench-gateway --tidegate $(TARGET)/release/tidegate --out target/bench $(BENCH)

##------------------------------------------------------------------------------------------------ the tree

.PHONY: setup
setup:
	@$(SETUP) rust

.PHONY: clean
clean: ## remove what was built, and the data of `make run`
	rm -rf target data .venv fuzz/target fuzz/artifacts
