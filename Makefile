# SPDX-License-Identifier: Apache-2.0

GO ?= go
LINTER := _output/bin/golangci-lint

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

# The race detector needs cgo, and go switches cgo off where it finds no C compiler.
RACE = $(shell [ "$$($(GO) env CGO_ENABLED)" = 1 ] && echo -race)
NORACE = WITHOUT THE RACE DETECTOR: it needs cgo and a C compiler; install gcc or clang, and leave CGO_ENABLED unset

.PHONY: test
test: ## Run the tests of the library, with the race detector
	$(if $(RACE),,@echo "make test: $(NORACE)" >&2)
	$(GO) test $(RACE) ./...

# The page is part of the repository: a run that changes it shows what differs.
# Two packages at a time, for the tests wait more than they work.
.PHONY: e2e
e2e: ## Run the tests on a real control plane, but for the long ones, and write docs/conformance.md
	@mkdir -p _output/conformance
	$(if $(RACE),,@echo "make e2e: $(NORACE)" >&2)
	cd test/e2e && $(GO) run ./build
	cd test/e2e && CONFORMANCE_RESULTS="$(CURDIR)/_output/conformance/real.json" $(GO) test $(RACE) -short -count=1 -p 2 -timeout 25m ./...
	CONFORMANCE_RESULTS="$(CURDIR)/_output/conformance/in-process.json" $(GO) test -count=1 ./test/conformance
	$(GO) run ./test/conformance/table -o docs/conformance.md _output/conformance/in-process.json _output/conformance/real.json

# 10,000 objects have more goroutines than the race detector bears.
.PHONY: e2e-long
e2e-long: ## Run all tests on a real control plane: outages of minutes, 10,000 objects, the harness itself
	cd test/e2e && $(GO) run ./build
	cd test/e2e && $(GO) test $(RACE) -count=1 -p 1 -timeout 25m . ./access ./faults
	cd test/e2e && $(GO) test -count=1 -timeout 25m ./scale
	cd test/e2e && $(GO) test -count=1 -timeout 25m -run TenThousand ./faults

# Built, not run by go run, which does not pass a signal on.
BENCH = cd test/bench && $(GO) build -o ../../_output/bin/bench . && ../../_output/bin/bench

.PHONY: bench
bench: ## Compare with kubelet's manager and others on a real control plane, and write docs/performance.md
	$(BENCH)
	$(BENCH) page ../../docs/performance.md

.PHONY: bench-quick
bench-quick: ## The same, small, in three minutes: a look, not a result
	$(BENCH) -quick

# The simulation goes without the race detector, which its many timers in one
# bubble crash now and then (go.dev/issue/78156).
.PHONY: bench-test
bench-test: ## Test the benchmark itself, very small, on a real control plane
	cd test/e2e && $(GO) run ./build
	cd test/bench && $(GO) test $(RACE) -count=1 $$($(GO) list ./... | grep -v /simulation)
	cd test/bench && $(GO) test -count=1 ./simulation

.PHONY: lint
lint: $(LINTER) ## Check style, format and import direction in every module
	@linter="$(CURDIR)/$(LINTER)"; status=0; \
	for mod in $$(git ls-files -co --exclude-standard -- '*go.mod' ':!test/tools/go.mod'); do \
		(cd "$$(dirname "$$mod")" && "$$linter" run ./...) || status=1; \
	done; \
	for file in $$(git grep --untracked -l 'time\.Sleep(' -- '*_test.go'); do \
		grep -q '"testing/synctest"' "$$(dirname "$$file")"/*_test.go || { status=1; \
			echo "$$file: time.Sleep in the tests of a package without testing/synctest: wait for what you need, or put the test in a bubble" >&2; }; \
	done; \
	exit $$status

.PHONY: fmt
fmt: $(LINTER) ## Format every Go file as lint wants it
	$(LINTER) fmt

# One version for everybody, built once from the nested module test/tools. The
# touch is for go build, which leaves alone a file that is up to date.
$(LINTER): test/tools/go.mod test/tools/go.sum
	@mkdir -p $(@D)
	cd test/tools && CGO_ENABLED=0 $(GO) build -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@
