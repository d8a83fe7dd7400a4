# SPDX-License-Identifier: Apache-2.0

GO ?= go
LINTER := _output/bin/golangci-lint
APIDIFF := _output/bin/apidiff
GOVULNCHECK := _output/bin/govulncheck

# The folders of the modules that users link: all but those under test/ and examples/.
LIBRARIES = $(patsubst %/,%,$(dir $(shell git ls-files -co --exclude-standard -- '*go.mod' ':!test/' ':!examples/')))
# Those that users copy as well.
EXAMPLES = $(patsubst %/,%,$(dir $(shell git ls-files -co --exclude-standard -- 'examples/*go.mod')))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-22s %s\n", $$1, $$2}' Makefile

# The race detector needs cgo. Without a C compiler, go turns cgo off.
RACE = $(shell [ "$$($(GO) env CGO_ENABLED)" = 1 ] && echo -race)
# With bubbles of testing/synctest the race detector needs GOMAXPROCS=1. Else two threads may run timers of one bubble
# in one race context, and it crashes with SIGSEGV (go.dev/issue/78156). One thread sees fewer orders, and so may miss a
# race. Go 1.27 has no such crash, but there net/http may stop the time of a bubble for ever: a response that is closed
# while it is read waits for a mutex, which is no durable block.
# One package more than there are cores runs at a time, because some tests wait in real time.
TEST_BUBBLES = $(if $(RACE),GOMAXPROCS=1 $(GO) test -race -p $$(($(shell getconf _NPROCESSORS_ONLN) + 1)),$(GO) test)
NORACE = WITHOUT THE RACE DETECTOR: it needs cgo and a C compiler; install gcc or clang, and unset CGO_ENABLED

# The tests of test/apiserver run kubectl: this one, or else the one in PATH.
KUBECTL := _output/bin/kubectl

# Their long tests skip themselves with the race detector: see Long in test/testmain.
UNRACED = ./internal/reflector ./internal/reflector/internal/admission ./internal/reflector/internal/course ./examples/nodeagent/volume ./test/model ./test/mutants ./test/secrecy

# With the race detector, a package may need the ten minutes that go test grants by default, on a busy machine.
.PHONY: test
test: $(if $(shell command -v kubectl 2>/dev/null),,$(KUBECTL)) ## Run the library's tests with the race detector
	$(if $(RACE),,@echo "make test: $(NORACE)" >&2)
	$(TEST_BUBBLES) -timeout 45m ./...
	$(if $(RACE),$(GO) test $(UNRACED))
	$(if $(RACE),$(GO) test -run 'GetsWorkAlone|ComeBackAfter|BesideSickOnes' ./objectcache)

.PHONY: test-short
test-short: $(if $(shell command -v kubectl 2>/dev/null),,$(KUBECTL)) ## Run the library's tests without crowds of objects and without the race detector
	$(GO) test -short ./...

# Also a number of executions: FUZZTIME=500000x. The first run compiles the libraries once more, with fewer counters.
FUZZTIME ?= 30s
FUZZ ?= .

.PHONY: fuzz
fuzz: ## Fuzz each target of all modules for FUZZTIME, 30s by default (or FUZZTIME=500000x), or those that match FUZZ
	@mkdir -p _output/bin && $(GO) build -o _output/bin/fuzz ./test/fuzz
	@_output/bin/fuzz -time $(FUZZTIME) -run '$(FUZZ)'

# make test runs the inputs in testdata/fuzz.
.PHONY: fuzz-corpus
fuzz-corpus: ## Fuzz as make fuzz does, and add the inputs that cover more to testdata/fuzz
	@mkdir -p _output/bin && $(GO) build -o _output/bin/fuzz ./test/fuzz
	@_output/bin/fuzz -time $(FUZZTIME) -run '$(FUZZ)' -corpus

.PHONY: fuzz-coverage
fuzz-coverage: ## Measure for minutes what the inputs of all fuzz targets cover, and write _output/fuzzing.md
	@mkdir -p _output
	$(GO) run ./test/fuzz -page _output/fuzzing.md

.PHONY: oss-fuzz
oss-fuzz: ## Build the targets of OSS-Fuzz from HEAD, and run each for 10 seconds (needs clang)
	@test/fuzz/ossfuzz/local.sh 10

# A number of schedules, or a duration such as 10m. A failure prints the schedule: see test/model. The schedules are other
# ones in each run; those of make test are always the same.
MODEL ?= 10000
MODEL_FLAGS = $(if $(filter %s %m %h,$(MODEL)),-model.period=$(MODEL),-model.schedules=$(MODEL))
MATRIX_RUNS ?= 20
MATRIX_PAIRS ?= 1
MATRIX_SCALE ?= 10
MATRIX_FAULTS ?=
PATTERNS ?= 50

.PHONY: model
model: ## Run MODEL=10000 random schedules of actions and faults (or MODEL=10m), in virtual time
	$(GO) test -count=1 -timeout 0 -v -run 'TestModel$$' ./test/model -args -model.seed=0 $(MODEL_FLAGS)

.PHONY: matrix
matrix: ## Run each fault MATRIX_RUNS=20 times and each pair MATRIX_PAIRS=1 times, with MATRIX_SCALE=10 references (or MATRIX_FAULTS=NAME,NAME only)
	$(GO) test -count=1 -timeout 0 -v -run 'Test(Matrix|Verbs)$$' ./test/model -args -model.seed=0 -model.runs=$(MATRIX_RUNS) \
		-model.pairs=$(MATRIX_PAIRS) -model.scale=$(MATRIX_SCALE) -model.faults='$(MATRIX_FAULTS)'

.PHONY: patterns
patterns: ## Run PATTERNS=50 random schedules with restarts for each pattern of operators with controller-runtime
	cd manager/controllerruntime && $(GO) test -count=1 -timeout 0 -v -run 'TestPatterns$$' ./internal/patterns -args \
		-patterns.seed=0 -patterns.schedules=$(PATTERNS)

.PHONY: matrix-of-kubelet
matrix-of-kubelet: ## Run each fault MATRIX_RUNS=20 times on kubelet's managers and on refwatch's, and print a table
	cd test/kubelet && $(GO) test -count=1 -timeout 0 -v -run 'TestModelOfKubelet$$' . -args -model.runs=$(MATRIX_RUNS)

.PHONY: secrecy
secrecy: ## Search all outputs for object data, under each fault, and kill a process that writes volumes at each step
	$(GO) test -count=1 -timeout 0 -run 'TestNoObjectDataInOutputs$$' ./test/secrecy -args -all
	$(GO) test -count=1 -timeout 0 -run 'AtEveryStep$$' ./examples/nodeagent/volume

.PHONY: kubelet-test
kubelet-test: ## Test that refwatch can take the place of kubelet's managers
	cd test/kubelet && $(TEST_BUBBLES) -count=1 ./...

.PHONY: controllerruntime-test
controllerruntime-test: ## Test the adapters for controller-runtime
	cd manager/controllerruntime && $(TEST_BUBBLES) -count=1 ./...

# CI is root on Debian, without a browser.
.PHONY: browser-test
browser-test: ## Test the debug page in a headless Chromium (root on Debian installs it)
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { [ "$$(id -u)" = 0 ] && \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium >/dev/null; } || \
		{ echo "make browser-test: no browser: install chromium (Debian: apt-get install chromium) or google-chrome" >&2; exit 1; }
	cd test/browser && $(GO) test $(RACE) -count=1 ./...

# The tests start nginx and HAProxy themselves: the services of the packages are stopped.
.PHONY: interop
interop: ## Test the HTTP/2 client with h2spec, nginx and HAProxy (root on Debian installs them)
	@PATH="$$PATH:/usr/sbin"; missing=; \
	for program in nginx haproxy; do command -v $$program >/dev/null || missing="$$missing $$program"; done; \
	[ -z "$$missing" ] || { [ "$$(id -u)" = 0 ] && apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$missing >/dev/null && \
		for service in $$missing; do service $$service stop >/dev/null 2>&1 || true; done; } || \
		{ echo "make interop: missing:$$missing (Debian: apt-get install$$missing)" >&2; exit 1; }
	cd test/interop && $(GO) test $(RACE) -count=1 -timeout 15m ./...

# MUTANTS selects some by their names.
MUTANTS ?=
MUTANTS_PART ?=

.PHONY: mutants
mutants: ## Put seeded bugs into the code, one at a time, and test that each is noticed (or MUTANTS=PATTERN or MUTANTS_PART=1/6)
	$(GO) run ./test/mutants $(if $(MUTANTS),-run '$(MUTANTS)',$(if $(MUTANTS_PART),-part '$(MUTANTS_PART)'))

# One of each list. That all mutants fit the code is part of make test.
FEW_MUTANTS = event-of-an-older-version|lagging-read-is-a-rollback|retry-after-is-ignored|any-kind-is-cut|goaway-ends-every-stream|new-owner-of-an-immutable|deletes-before-it-adds|files-that-others-can-read|checker-s2-older-state|consistent-read-at-the-version-seen

.PHONY: mutants-quick
mutants-quick: ## Test that a few seeded bugs are noticed, in some minutes
	$(GO) run ./test/mutants -run '^($(FEW_MUTANTS))$$'

.PHONY: alerts-test
alerts-test: ## Test that each alert of docs/dashboards/alerts.yaml fires in its trouble, with Prometheus' engine
	cd test/alerts && $(GO) test -count=1 ./...

.PHONY: protocol
protocol: ## Search all states of the model of a reflector's sessions with SPIN (root on Debian installs it)
	@command -v spin >/dev/null || { [ "$$(id -u)" = 0 ] && \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends spin >/dev/null; } || \
		{ echo "make protocol: spin is missing: install it (Debian: apt-get install spin)" >&2; exit 1; }
	test/protocol/check.sh

# KUBERNETES is in the environment of all commands that start a control plane: see Build in test/e2e.
# Three packages run at a time, and six tests of each that has so many, as the tests mostly wait; the longest begin first.
.PHONY: e2e
e2e: ## Run the short tests on a real control plane (or KUBERNETES=1.37) and write _output/conformance.md
	@mkdir -p _output/conformance
	$(if $(RACE),,@echo "make e2e: $(NORACE)" >&2)
	cd test/e2e && $(GO) run ./build
	cd test/e2e && CONFORMANCE_RESULTS="$(CURDIR)/_output/conformance/real.json" $(GO) test $(RACE) -short -count=1 -p 3 -parallel 6 -timeout 25m ./faults ./chaos ./conformance ./...
	CONFORMANCE_RESULTS="$(CURDIR)/_output/conformance/in-process.json" $(GO) test -count=1 ./test/conformance
	$(GO) run ./test/conformance/table -o _output/conformance.md _output/conformance/in-process.json _output/conformance/real.json

# With 10,000 objects there are more goroutines than the race detector supports.
.PHONY: e2e-long
e2e-long: ## Run all tests on a real control plane: long outages, 10,000 objects, the harness
	cd test/e2e && $(GO) run ./build
	cd test/e2e && $(GO) test $(RACE) -count=1 -p 1 -timeout 40m . ./access ./faults ./conformance
	cd test/e2e && $(GO) test -count=1 -timeout 25m ./scale
	cd test/e2e && $(GO) test -count=1 -timeout 25m -run TenThousand ./faults

# The second run has the race detector, with as many streams as it has goroutines for: the server has one for each.
SOAK ?= 10m
SOAK_RACE ?= 5m
SOAK_FLAGS = -soak.updates=100 -soak.churn=10 -soak.faults=5s -soak.fresh=15s

.PHONY: soak
soak: ## Run 10,000 objects under churn and faults for SOAK=10m, and then 3,000 with the race detector for SOAK_RACE=5m
	cd test/e2e && $(GO) run ./build
	cd test/e2e && $(GO) test -v -count=1 -timeout 0 ./soak -args $(SOAK_FLAGS) -soak.period=$(SOAK) -soak.objects=10000 -soak.heap-growth=0.01
	$(if $(RACE),,@echo "make soak: $(NORACE)" >&2)
	$(GO) test $(RACE) -v -count=1 -timeout 0 ./test/soak -args $(SOAK_FLAGS) -soak.period=$(SOAK_RACE) -soak.objects=3000

CHAOS_ROUNDS ?= 10

.PHONY: chaos
chaos: ## Inject more than 100 faults into a real control plane, one after another, under load: an hour (or CHAOS_ROUNDS=N)
	cd test/e2e && $(GO) run ./build
	cd test/e2e && $(GO) test -v -count=1 -timeout 0 ./chaos -args -chaos.rounds=$(CHAOS_ROUNDS)

# The counts of a night and of an hour are in test/reliability/run. Each part that is done has a file of results, and is not
# run again: remove the folder to begin anew.
# PART=chaos runs the parts whose names begin so, and writes no page.
PART ?=
RELIABILITY = $(GO) build -o _output/bin/reliability ./test/reliability/run && _output/bin/reliability -o _output/reliability.md $(if $(PART),-part '$(PART)')

.PHONY: reliability
reliability: ## Run model, matrix, secrecy, fuzz, chaos, soak and mutants in full, for hours, or go on with that, and write _output/reliability.md
	@mkdir -p _output/bin
	$(RELIABILITY) -results _output/reliability

.PHONY: reliability-hour
reliability-hour: ## The same in about an hour, with smaller counts
	@mkdir -p _output/bin
	$(RELIABILITY) -hour -results _output/reliability-hour

.PHONY: operator-test
operator-test: ## Test the example operator and run its demo
	cd examples/operator && $(GO) test -count=1 ./... && $(GO) run . --once

.PHONY: operator-table
operator-table: ## Measure the example operator with each cache, and write its RESULTS.md
	cd test/e2e && $(GO) run ./build
	cd test/e2e && OPERATOR_TABLE="$(CURDIR)/examples/operator/RESULTS.md" $(GO) test -count=1 -timeout 30m -run 'TestTable$$' -v ./operator

# Built first, because go run does not forward signals.
BENCH = cd test/bench && $(GO) build -o ../../_output/bin/bench . && ../../_output/bin/bench

.PHONY: bench
bench: ## Compare with kubelet's manager and others, and write docs/results/performance.md
	$(BENCH)
	$(BENCH) page ../../docs/results/performance.md

.PHONY: bench-quick
bench-quick: ## Run a small benchmark in three minutes, for a rough comparison
	$(BENCH) -quick

# With the race detector the simulation takes minutes.
.PHONY: bench-test
bench-test: ## Test the benchmark itself on a real control plane
	cd test/e2e && $(GO) run ./build
	cd test/bench && $(TEST_BUBBLES) -count=1 $$($(GO) list ./... | grep -v /simulation)
	cd test/bench && $(GO) test -count=1 ./simulation

.PHONY: lint
lint: $(LINTER) ## Check style, format and import direction in every module
	@linter="$(CURDIR)/$(LINTER)"; status=0; \
	for mod in $$(git ls-files -co --exclude-standard -- '*go.mod'); do \
		(cd "$$(dirname "$$mod")" && "$$linter" run --allow-parallel-runners ./...) || status=1; \
	done; \
	(cd test/tools && $(GO) tool actionlint -shellcheck= -pyflakes= ../../.github/workflows/*.yml) || status=1; \
	for file in $$(git grep --untracked -l 'time\.Sleep(' -- '*_test.go'); do \
		grep -q '"testing/synctest"' "$$(dirname "$$file")"/*_test.go || { status=1; \
			echo "$$file: time.Sleep in a package whose tests do not use testing/synctest: wait for the event, or use a bubble" >&2; }; \
	done; \
	exit $$status

# Checks that the modules' go.mod agree, and tests the commands that stand there.
.PHONY: tools-test
tools-test: ## Test that all go.mod agree on versions, and test apidiff, vulncheck, sbom, release and images
	cd test/tools && $(GO) test -count=1 ./...

# Pinned, so that a run can be repeated. Raise them with each release. Go and golang.org/x/net change the HTTP/2 client,
# and Go the time of testing/synctest. If the tests fail, set one after the other to what .go-version and go.mod have,
# and see which one it is; COMPAT_NET at least to what the Kubernetes libraries require.
COMPAT_GO ?= go1.27.4
COMPAT_KUBERNETES ?= v0.37.2
COMPAT_CONTROLLER_RUNTIME ?= v0.25.2
COMPAT_NET ?= v0.62.0

.PHONY: compat
compat: export GOTOOLCHAIN = $(COMPAT_GO)
compat: $(if $(shell command -v kubectl 2>/dev/null),,$(KUBECTL)) ## Run the tests with the newest Go, Kubernetes, controller-runtime and x/net (or COMPAT_GO=go1.N.P COMPAT_KUBERNETES=v0.N.P ...)
	test/tools/compat.sh $(COMPAT_KUBERNETES) $(COMPAT_CONTROLLER_RUNTIME) $(COMPAT_NET) $(LIBRARIES)

.PHONY: apidiff
apidiff: $(APIDIFF) ## List API changes since the last tag (or BASE=REV); breaking ones must be in CHANGELOG.md
	test/tools/apidiff.sh "$(CURDIR)/$(APIDIFF)" $(LIBRARIES)

.PHONY: vulncheck
vulncheck: $(GOVULNCHECK) ## Look for known vulnerabilities in what is called (offline: GOVULNDB=file:///FOLDER)
	test/tools/vulncheck.sh "$(CURDIR)/$(GOVULNCHECK)" $(LIBRARIES) $(EXAMPLES)

.PHONY: vex
vex: $(GOVULNCHECK) ## Write an OpenVEX document of each module that users link into _output/vex: which known vulnerabilities affect it
	@rm -rf _output/vex
	VEX="$(CURDIR)/_output/vex" test/tools/vulncheck.sh "$(CURDIR)/$(GOVULNCHECK)" $(LIBRARIES)

# The version and the time are those of the commit, so that a bill can be made again.
SBOM_VERSION ?= $(shell git describe --tags --match 'v*' --always --dirty)

.PHONY: sbom
sbom: ## Write a CycloneDX SBOM of each module that users link, into _output/sbom
	@rm -rf _output/sbom && mkdir -p _output/sbom
	cd test/tools && $(GO) run ./sbom -o "$(CURDIR)/_output/sbom" \
		-version "$(SBOM_VERSION)" -timestamp "$$(git log -1 --format=%cI)" $(LIBRARIES:%="$(CURDIR)/%")

# A dry run is a step of CI, with a version that will never be.
RELEASE = $(MAKE) sbom SBOM_VERSION=$(1) && cd test/tools && $(GO) run ./release -root ../.. -sbom ../../_output/sbom \
	-o ../../_output/release -version $(1) $(2) $(LIBRARIES)

.PHONY: release
release: ## Check everything, write notes, SBOM, provenance and modules of VERSION=v0.1.0 into _output/release, and tag them
	@[ -n "$(VERSION)" ] || { echo "make release: give the version: VERSION=v0.1.0" >&2; exit 1; }
	@[ -z "$$(git status --porcelain)" ] || { echo "make release: the tree has changes: commit or remove them" >&2; exit 1; }
	.ci/run
	$(call RELEASE,$(VERSION),)

.PHONY: release-dry-run
release-dry-run: ## Make a release of HEAD without tags, and say what the documents lack for VERSION (v0.0.0-dry-run by default)
	$(call RELEASE,$(or $(VERSION),v0.0.0-dry-run),-dry-run)

.PHONY: images
images: ## Build the examples nodeagent, ingresstls and operator as OCI images, without a daemon, into _output/images (or VERSION=v0.1.0)
	cd test/tools && $(GO) run ./image -o ../../_output/images -version "$(VERSION)" \
		$(foreach example,nodeagent ingresstls operator,../../examples/$(example))

.PHONY: kubectl
kubectl: $(KUBECTL) ## Build the kubectl that tests run (make test does if there is none)

.PHONY: fmt
fmt: $(LINTER) ## Format all Go files as lint requires
	$(LINTER) fmt

# The touch is needed because go build does not change the time of a file that is
# up to date.
$(KUBECTL): test/e2e/controlplane/go.mod test/e2e/controlplane/go.sum
	@mkdir -p $(@D)
	@echo "building kubectl, which takes minutes the first time" >&2
	cd test/e2e/controlplane && CGO_ENABLED=0 nice $(GO) build -trimpath -ldflags "-s -w" -o ../../../$@ k8s.io/kubernetes/cmd/kubectl
	@touch $@

# test/tools pins the versions of the tools.
$(LINTER): TOOL = github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(APIDIFF): TOOL = golang.org/x/exp/cmd/apidiff
$(GOVULNCHECK): TOOL = golang.org/x/vuln/cmd/govulncheck
$(LINTER) $(APIDIFF) $(GOVULNCHECK): test/tools/go.mod test/tools/go.sum
	@mkdir -p $(@D)
	cd test/tools && CGO_ENABLED=0 $(GO) build -o ../../$@ $(TOOL)
	@touch $@
