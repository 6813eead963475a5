# What people and CI run; nothing is only in CI. `make help` lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Build output stays out of the tree: a checkout is small, copies of it share
# what was built, and nothing that walks the tree trips over gigabytes.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/apifront
export CARGO_TARGET_DIR ?= $(CACHE)/target

# How many tests run at a time. Most of them wait for other processes, or for time
# to pass.
TEST_THREADS ?= 12
# The same for unit tests, which run beside the first of the others.
UNIT_TEST_THREADS ?= 6
# Names of tests, or options of the test program.
TEST_ARGS ?=
# How many times as much random work the tests do as usual.
VOLUME ?= 1
export APIFRONT_TEST_VOLUME := $(VOLUME)
# How often `make test-again` runs the suite, and beside how many busy processes.
LOAD ?= 0
# The releases of Kubernetes for `make test-releases`, such as `1.32 1.37+all`:
# empty for all that are known, and the newest with all feature gates on.
RELEASES ?=
# Their store: etcd, or kine, which k3s has.
STORAGE ?= etcd
# The suites for `make test-tree`.
TREE_SUITES ?= cached_reads:: chunked:: conformance:: consistency:: custom_resources:: discovery:: streams:: tables:: watch_history::
# The libraries for `make test-clients`, such as `python kubectl-1.36`: empty for
# all.
CLIENTS ?=
# The programs for `make test-software`, such as `helm kopf`: empty for all; and how
# often each does what it does: empty for its own number.
SOFTWARE ?=
TIMES ?=
# The image that `make image` makes: its name, its file, and a binary that is built
# already, or the features of the one that is built, such as `demo`.
IMAGE ?= localhost/apifront:0.1.0
IMAGE_FILE ?= $(CACHE)/apifront-image.tar
BINARY ?=
FEATURES ?=
SBOM_FILE ?= $(CACHE)/apifront.cdx.json
# The git revision whose API `make test-crates` compares with: empty for the newest
# release of each crate.
SEMVER_BASELINE ?=
# Where `make docs` writes.
DOCS_SITE ?= $(CACHE)/docs
# The informers and the rounds of `make test-rolling-restart`.
INFORMERS ?= 50
ROUNDS ?= 1
BUILD_BENCHMARKS := cargo build --release --workspace --bin apifront --bin benchmarks
# How long `make soak` lasts.
MINUTES ?= 30

SCRIPTS := $(wildcard .ci/run tests/*.sh tests/*/*.sh tests/clients/*/*.sh tools/*.sh tools/*/*.sh examples/*/*.sh)
GO_FOLDERS := $(wildcard tests tools)

.PHONY: help
help: ## Lists these targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22

# The dev profile: only the dependencies that carry requests and objects are
# optimized (Cargo.toml lists them). The release profile takes several times as
# long to build and shows a newcomer nothing more; ARGS go to the binary.
.PHONY: run
run: ## Builds and starts apifront on http://127.0.0.1:8001 with the demo: sample objects in memory
	cargo run --features demo -- $(ARGS)

.PHONY: test
test: test-servers ## Runs all tests that fail when apifront is wrong, before a real kube-apiserver
	cargo test --workspace --doc
	cargo test --workspace --lib --bins --tests --no-run
	UNIT_TEST_THREADS=$(UNIT_TEST_THREADS) TEST_THREADS=$(TEST_THREADS) tests/units-and-suite.sh $(TEST_ARGS)

.PHONY: test-measured
test-measured: test-servers ## Runs the tests that measure memory and times, one by one; nothing else may run
	tests/suite.sh measured $(TEST_ARGS)

.PHONY: test-proofs
test-proofs: test-servers ## Runs the suites with kube-apiserver or the embedded server in apifront's place
	TEST_THREADS=$(TEST_THREADS) tests/suite.sh proofs $(TEST_ARGS)

.PHONY: test-all
test-all: ## Runs all three, with four times as much random work (VOLUME)
	$(MAKE) test VOLUME=4
	$(MAKE) test-proofs
	$(MAKE) test-measured

.PHONY: test-again
test-again: test-servers ## Runs the suite TIMES (20) times beside LOAD busy processes, and prints what failed
	TIMES=$(or $(TIMES),20) LOAD=$(LOAD) TEST_THREADS=$(TEST_THREADS) tests/again.sh $(TEST_ARGS)

.PHONY: test-releases
test-releases: test-servers ## Runs suites before kube-apiserver of each of RELEASES (1.31 to 1.37; an hour when cold), on STORAGE
	TEST_THREADS=$(TEST_THREADS) STORAGE=$(STORAGE) tests/releases.sh $(RELEASES)

.PHONY: test-tree
test-tree: test-servers ## Runs TREE_SUITES through apifront before apifront (10 minutes)
	APIFRONT_TEST_HOPS=2 cargo test --workspace --test suite -- --test-threads=$(TEST_THREADS) $(TREE_SUITES)

.PHONY: test-clients
test-clients: test-servers ## Runs released client libraries, CLIENTS or all, directly and through apifront (2 minutes; 9 when cold)
	APIFRONT_TEST_CLIENTS="$(CLIENTS)" cargo test --workspace --test clients libraries_see_no_difference -- --nocapture

.PHONY: test-software
test-software: test-servers ## Runs released programs, SOFTWARE or all, directly and through apifront (10 minutes; 25 when cold)
	APIFRONT_TEST_SOFTWARE="$(SOFTWARE)" APIFRONT_TEST_TIMES="$(TIMES)" cargo test --workspace --test software software_runs_behind_it -- --nocapture

.PHONY: test-status-page
test-status-page: ## Opens the status page in headless Chromium and checks it (20 seconds)
	tests/status-page/run.sh

.PHONY: test-servers
test-servers: ## Builds the real servers that the tests run against (Go; minutes when cold)
	tests/inotify.sh
	tests/kubernetes/build.sh
	tests/build-program.sh apiextensions
	tests/build-program.sh encodings
	tests/build-program.sh informer
	tests/build-program.sh prometheus

.PHONY: test-charts
test-charts: ## Tests the Helm chart and the kustomize base before a real kube-apiserver (Go; minutes when cold)
	tests/charts/run.sh

.PHONY: test-in-place
test-in-place: ## Puts apifront in the place of kube-apiserver on a node of kubeadm, and back (2 minutes; Go, nftables)
	tests/in-place/run.sh

.PHONY: test-deployment
test-deployment: ## Runs the commands of docs/deployment.md for managed clusters and k3s (half a minute; Go)
	tests/deployment/run.sh

.PHONY: test-rolling-restart
test-rolling-restart: ## Restarts three apifronts behind haproxy under INFORMERS clients, one by one (a minute; Go, haproxy)
	tests/rolling-restart/run.sh --informers $(INFORMERS) --rounds $(ROUNDS)

.PHONY: test-crates
test-crates: ## Checks what would be published: documents, package and, if cargo-semver-checks is installed, API
	tools/crates.sh "$(SEMVER_BASELINE)"

.PHONY: image
image: ## Makes an OCI image from BINARY (default: a release build with FEATURES) in IMAGE_FILE, without a registry (buildah)
	[ -n "$(BINARY)" ] || cargo build --release --locked --bin apifront --features "$(FEATURES)"
	tools/image.sh "$(or $(BINARY),$(CARGO_TARGET_DIR)/release/apifront)" $(IMAGE) "$(IMAGE_FILE)"

.PHONY: sbom
sbom: ## Writes the list of what the binary is made of, as CycloneDX, to SBOM_FILE
	tools/sbom.sh > "$(SBOM_FILE)"

.PHONY: test-image
test-image: ## Makes an image and runs it, read-only and not as root, before a real kube-apiserver (podman, runc)
	tests/image/run.sh

.PHONY: docs
docs: ## Builds the documents as a site in DOCS_SITE, with search (mdBook; minutes when it is not installed)
	tools/docs.sh "$(DOCS_SITE)"

.PHONY: kustomize
kustomize: ## Writes the kustomize base anew from the Helm chart (Go)
	tools/kustomize.sh

.PHONY: soak
soak: test-servers ## Runs for MINUTES (30) while everything around it changes, and fails if anything grew
	$(BUILD_BENCHMARKS)
	$(CARGO_TARGET_DIR)/release/benchmarks soak --minutes $(MINUTES)

.PHONY: lint
lint: ## Checks format, clippy, scripts, Go files and, if installed, dependencies
	cargo fmt --all --check
	cargo fmt --manifest-path tests/clients/kube/Cargo.toml --check
	cargo clippy --workspace --all-targets --test clients --test software -- -D warnings
	# The program as it is shipped: tests turn its features on.
	cargo clippy --workspace --bin apifront -- -D warnings
	for script in $(SCRIPTS); do bash -n "$$script"; done
	twice=$$(sed -nE 's/^([A-Z_]+) *\?=.*/\1/p' $(firstword $(MAKEFILE_LIST)) | sort | uniq -d); \
	[ -z "$$twice" ] || { echo "set twice in the Makefile: $$twice"; exit 1; }
	if command -v gofmt >/dev/null; then \
	  unformatted=$$(gofmt -l $(GO_FOLDERS)); \
	  [ -z "$$unformatted" ] || { echo "gofmt: $$unformatted"; exit 1; }; \
	else echo "gofmt is not installed: Go files not checked"; fi
	if command -v cargo-deny >/dev/null; then cargo deny --locked check licenses bans sources; \
	else echo "cargo-deny is not installed: licences and bans of dependencies not checked"; fi

.PHONY: schema
schema: ## Writes the schema and the deprecations of built-in kinds anew from the Go types (Go)
	cd tools/schema && go run . > ../../crates/wire/src/schema/kubernetes.txt.new
	mv crates/wire/src/schema/kubernetes.txt.new crates/wire/src/schema/kubernetes.txt
	cd tools/schema && go run . deprecations > ../../src/deprecation/kubernetes.txt.new
	mv src/deprecation/kubernetes.txt.new src/deprecation/kubernetes.txt

.PHONY: schema-drift
schema-drift: ## Prints how the built-in types differ between releases, as a table (Go)
	tools/schema/drift.sh

.PHONY: bench
bench: test-servers ## Runs the benchmarks, or one of them (ARGS='cached_list --pods 2000'): ours and the peer's in one run
	$(BUILD_BENCHMARKS)
	$(CARGO_TARGET_DIR)/release/benchmarks $(ARGS)

.PHONY: fmt
fmt: ## Formats Rust and Go files
	cargo fmt --all
	cargo fmt --manifest-path tests/clients/kube/Cargo.toml
	if command -v gofmt >/dev/null; then gofmt -w $(GO_FOLDERS); fi

.PHONY: deps
deps: ## Downloads what the build and the tests need, for work without a network
	cargo fetch --locked
	for module in tests/kubernetes tests/kubernetes/releases/* tests/kwok tests/charts tests/charts/controllers tests/charts/crds tests/encodings tests/informer tests/kine tests/prometheus tests/traffic tests/clients/client-go tests/clients/controller-runtime tests/clients/kubectl/releases/* tools/schema; do (cd $$module && go mod download); done
	cd tests/apiextensions && GOTOOLCHAIN=go1.27.3 go mod download
