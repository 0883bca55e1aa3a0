# Rigs. The targets that people use:
#
#   make run     set this machine up, build, start the server, open a first rig
#   make stop    stop the server that make run started, and every rig of it
#   make test    everything: vet, lint, unit tests, real machines, the page
#   make build   bin/rigs and bin/rigs-guest
#   make bench   every number that docs/performance.md quotes
#   make help    the rest
#
# TESTFLAGS is handed to every go test (make test-unit TESTFLAGS='-run Gate -v').

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
export PATH := $(PATH):/usr/sbin:/sbin

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
GOBUILD := CGO_ENABLED=0 go build -trimpath -buildvcs=false
LDFLAGS := -s -w -X rigs/internal/cli.version=$(VERSION)
# The guest binary carries no version of the checkout: templates are made again
# whenever it changes, and a commit that does not touch it should not do that.
GUEST_LDFLAGS := -s -w

LINT := bin/golangci-lint
SCRIPTS := .ci/run $(wildcard scripts/*)
PAGE := web/dist/index.html
NODE_MODULES := web/node_modules/.package-lock.json
PAGE_SOURCES := $(shell find web -path web/node_modules -prune -o -path web/dist -prune -o -path web/test-results -prune -o -type f ! -name '*.go' -print 2>/dev/null)

.PHONY: run stop test build bench clean help setup generate lint vet fmt page \
	fuzz test-fuzz test-unit test-vm test-page test-inspector test-cross test-generated clean-machine-test test-qemu binaries

## run: set up, build, start the server in the background, open a first rig
run:
	@scripts/setup
	@$(MAKE) -s build
	@bin/rigs up

## stop: stop that server and close its rigs
stop:
	@if [ -x bin/rigs ]; then bin/rigs down; else echo "nothing to stop: bin/rigs is not built"; fi

## setup: only install what is missing
setup:
	@scripts/setup

## build: the page, bin/rigs and bin/rigs-guest
build: $(PAGE) binaries

# go build knows best what is fresh.
binaries:
	@mkdir -p bin
	@scripts/step 'programs: fetching modules' go mod download
	@scripts/step 'programs: building rigs-guest' env GOOS=linux $(GOBUILD) -ldflags '$(GUEST_LDFLAGS)' -o bin/rigs-guest ./cmd/rigs-guest
	@scripts/step 'programs: building rigs' env $(GOBUILD) -ldflags '$(LDFLAGS)' -o bin/rigs ./cmd/rigs

## page: the web page alone
page: $(PAGE)

$(PAGE): $(NODE_MODULES) $(PAGE_SOURCES)
	@scripts/step 'page: building' npm --prefix web run --silent build
	@touch $@

# npm writes this file when it has installed everything.
$(NODE_MODULES): web/package-lock.json
	@scripts/step 'page: installing its packages' npm --prefix web ci --no-audit --no-fund --loglevel=error
	@touch $@

## generate: make generated code again
generate: $(NODE_MODULES)
	go generate ./...
	@scripts/step 'generate: sqlc, which is built the first time' go tool -modfile=tools/go.mod sqlc generate
	npm --prefix web run --silent generate

## lint: golangci-lint with the list in .golangci.yml, and shellcheck
lint: $(LINT)
	$(LINT) run ./...
	shellcheck -x $(SCRIPTS)

# Built once, with the versions that tools/go.sum pins.
$(LINT): tools/go.mod tools/go.sum
	@mkdir -p bin
	@scripts/step 'lint: building golangci-lint, which takes minutes the first time' go build -buildvcs=false -modfile=tools/go.mod -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

fmt: $(LINT)
	$(LINT) fmt ./...

vet:
	go vet ./...

## test: everything; installs what it needs
test:
	@scripts/setup --tests
	@scripts/test

## test-unit: Go tests outside test/
test-unit:
	go test -p 2 $(TESTFLAGS) $$(go list ./... | grep -v -e '^rigs/test/' -e '^rigs/bench')

## test-vm: the suites under test/, which start real machines
test-vm: binaries
	go test -p 1 -timeout 30m $(TESTFLAGS) ./test/...

## fuzz: every fuzzer for FUZZTIME (60s) each; FUZZ=REGEXP for some of them
fuzz:
	@scripts/fuzz

## test-fuzz: fuzz, as make test does it: a minute for the gate's, 20 s for others
test-fuzz:
	@FUZZTIME=60s FUZZTIME_REST=20s scripts/fuzz

## test-page: the page, in a real browser
test-page: build
	cd web && npm test

## test-inspector: the MCP server, by the protocol's own inspector from npm
test-inspector:
	npm --prefix test/mcp ci --no-audit --no-fund --loglevel=error
	go test -count=1 -run Inspector ./internal/server

## test-cross: what must compile elsewhere
test-cross:
	GOOS=darwin GOARCH=arm64 go vet ./...
	GOOS=linux GOARCH=arm64 go vet ./...

## test-generated: generated code is what the generators make
test-generated: $(NODE_MODULES)
	@scripts/check-generated

## clean-machine-test: set up, build and run in a fresh Debian with empty caches
clean-machine-test:
	@scripts/clean-machine-test

## test-qemu: boot and template suite against Debian 13's QEMU 10
test-qemu:
	@scripts/test-qemu

## bench: measure
bench: build
	@scripts/setup --tests
	go run ./bench $(BENCHFLAGS)

## clean: what make build made
clean:
	rm -rf bin web/node_modules web/test-results
	find web/dist -mindepth 1 ! -name .gitkeep -delete

help:
	@sed -n 's/^## /  make /p' Makefile
