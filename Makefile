# The same steps as .ci/run takes, by name. `make help` lists them.

ARGS ?=
BENCHTIME ?= 1s
FIRST ?= 1
FUZZTIME ?= 10s
PKG ?= ./...
PROGRAMS ?= 5000
RACE ?=
RAILS ?= 2
SEEDS ?= 10000
SIZES ?= 1000,2000,5000,10000,20000
TAGS ?=
TIME ?= 30m

.DEFAULT_GOAL := help
.PHONY: help build run test test-all race lint fmt check fuzz bench bounds netns sim scale convergence explore programs soak hosting proxies service rdma rdma-bench mpi mpi-shims mpi-kills mpi-memory mpi-bench liblnetd liblnetd-soak liblnetd-bench liblnet-mpi conformance control-page findings-page metrics-page man pictures tunables packages release ci clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## lnetd, lnetdctl and lnetperf into bin/; TAGS=o2ib: with the driver for RDMA
	go build -tags '$(TAGS)' -o bin/ ./cmd/...

run: ## lnetd in the foreground; ARGS="--net 'tcp(lo)' --port 9988"
	go run ./cmd/lnetd $(ARGS)

test: ## go test ./...; what needs root or a Debian package is skipped
	go test $(PKG)

test-all: ## every test, with the race detector, as .ci/run does; needs root, tshark, iproute2, chromium
	.ci/run tools race

race: ## go test under the race detector; what needs root or a Debian package is skipped
	go test -race -exec $(CURDIR)/.ci/race $(PKG)

lint: ## golangci-lint, import floors included
	.ci/run tools lint

fmt: ## format the code
	find . -path ./bin -prune -o -name '*.go' -exec gofmt -w {} +

check: ## what .ci/run checks without running a test
	.ci/run tools build vet format tidy lint

fuzz: ## each fuzz target for FUZZTIME
	FUZZTIME=$(FUZZTIME) .ci/run fuzz

bench: ## lnetd beside plain TCP, then time and allocations of what is on the message path
	go build -o bin/ ./cmd/lnetperf
	bin/lnetperf compare || [ $$? = 3 ] # a goal was missed
	[ "$$(nproc)" -lt 2 ] || bin/lnetperf compare --apart || [ $$? = 3 ]
	bin/lnetperf compare --hosted || [ $$? = 3 ]
	bin/lnetperf compare --hosted --stacked --only message --rounds 9 || [ $$? = 3 ]
	[ "$$(nproc)" -lt 2 ] || bin/lnetperf compare --hosted --apart --only message --rounds 9 || [ $$? = 3 ]
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./lnet ./lnet/portals ./selection ./lnd/socklnd/protocol ./lnd/o2iblnd/protocol ./node ./selftest ./transport/... ./internal/load/perf
	go test -run '^$$' -bench '^BenchmarkPutAck$$' -benchmem -benchtime $(BENCHTIME) -cpu 1 ./node # msgs/s of one core

bounds: ## record what messages cost now in .ci/bounds.json, which .ci/run bench compares with; needs root
	go run ./cmd/lnetperf compare --rounds 15 --record-bounds .ci/bounds.json \
		--only 'PUT.ACK|64 in flight, peer|TM message.*(async|notified)|lst ping|lst brw.*4 KiB'

pictures: ## the pictures in docs/performance and the tables of its page, from the results
	go test -count=1 -run '^TestCommitted' ./internal/load/perf/picture -update

netns: ## tests between network namespaces; needs root and iproute2
	LNETD_TEST_ALL=1 go test -count=1 -v ./test/netns

sim: ## SEEDS seeded scenarios of whole nodes with faults, from seed FIRST on
	go test -count=1 -timeout 0 -v -run '^TestSeeds$$' ./internal/testing/simulation -seeds $(SEEDS) -first $(FIRST)

scale: ## storms of connections and a router between real processes, then simulations with SIZES whole nodes
	go run ./cmd/lnetperf scale
	go run ./cmd/lnetperf scale --router --peers 40,80,150 --servers 10
	go test ./internal/testing/multitude -timeout 0 -v -sizes '$(SIZES)' -figures bin/simulation.json

convergence: ## SEEDS seeded worlds of discovery's machines with faults, from seed FIRST on
	go test -count=1 -timeout 0 -v -run '^TestNodesConverge$$' ./discovery -seeds $(SEEDS) -first $(FIRST)

explore: ## every short path of discovery's machines, with a budget of faults: minutes, and up to 2 GB
	go test -count=1 -timeout 0 -v -run '^TestExplore$$' ./discovery -explore-full

programs: ## PROGRAMS random programs of transfer machines of either kind beside their model, over each Core
	go test $(if $(RACE),-race -exec $(CURDIR)/.ci/race) -count=1 -timeout 0 -v -run '^TestRandomPrograms$$' ./transport/mem ./transport/inproc -rapid.checks $(PROGRAMS)

soak: ## two nodes in two processes over TCP with connections that break, for TIME; RACE=1, RAILS=2
	go test $(if $(RACE),-race -exec $(CURDIR)/.ci/race) -count=1 -timeout 0 -v -run '^TestSoak$$' ./test/soak -soak $(TIME) -rails $(RAILS)

hosting: ## lnetd and clients that die, stop, do harm, come in numbers and soak for TIME; long forms
	go test $(if $(RACE),-race -exec $(CURDIR)/.ci/race) -count=1 -timeout 0 -v ./test/hosting -long -soak $(TIME)

proxies: ## lnetd's side of drivers in other processes, with proxies that do harm and are killed; long forms
	go test $(if $(RACE),-race -exec $(CURDIR)/.ci/race) -count=1 -timeout 0 -v ./test/proxies -long

service: ## the units of deploy/systemd under a real systemd; needs root, systemd-container, debootstrap
	.ci/run tools service

rdma: ## lnetd and the shim over RDMA, in software, in a machine of QEMU's; needs root
	.ci/run tools o2ib

rdma-bench: ## lnetd beside the plainest program in C over RDMA, there
	.ci/run o2ib_bench

mpi: ## the boundary to MPI over Open MPI and MPICH; installs them if root
	.ci/run tools mpi

mpi-shims: ## bin/lnetd-openmpi.so and bin/lnetd-mpich.so, for the MPI libraries that are installed
	lnd/mpilnd/shim/build bin

liblnetd: ## bin/liblnetd: the C library for clients of lnetd, its header, lnetd.pc and manual pages
	client/c/build bin/liblnetd
	go run ./client/c/man client/c/src/lnetd.h bin/liblnetd/man3

liblnet-mpi: ## bin/liblnet_mpi: the C library for ranks of MPI applications, and its header
	mpi/c/build bin/liblnet_mpi

liblnetd-soak: ## programs that use liblnetd and move 10 GB, are killed 1,000 times, and survive lnetd's death 20 times
	go test $(if $(RACE),-race -exec $(CURDIR)/.ci/race) -count=1 -timeout 0 -v -run '^TestLibrarySoak$$' ./test/hosting -long

liblnetd-bench: ## round trips of programs in C, Go and Python over one lnetd and two, beside the simplest program
	go test -count=1 -timeout 0 -run '^$$' -bench '^BenchmarkLibraryExchange$$' -benchtime 25x ./test/hosting

mpi-kills: ## kill a rank or a proxy of an MPI job 50 times with each library; jobs end, and lnetd goes on
	go test -tags mpi $(if $(RACE),-race -exec $(CURDIR)/.ci/race) -count=1 -timeout 0 -v -run '^TestKill$$' ./test/mpi -kills 50

mpi-memory: ## a million messages through a proxy with each library, whose memory does not grow, and which is then idle
	go test -tags mpi -count=1 -timeout 0 -v -run '^TestMemory$$' ./test/mpi -messages 1000000 -idle 10s

mpi-bench: ## messages between two ranks, beside the plainest program in C, and an idle rank
	go test -tags mpi -run '^$$' -bench 'Loads|Megabyte' -benchtime 3x ./lnd/mpilnd ./lnd/mpilnd/shim

conformance: ## bin/conformance.md: which test shows which rule of the specification
	@mkdir -p bin
	go run ./internal/testing/conformance/writepage bin/conformance.md

control-page: ## docs/control.md and docs/selftest.md: requests, codes and replies
	go test -count=1 -run '^TestPageIsUpToDate$$' ./internal/lnetd/control/server -update

findings-page: ## docs/findings.md: what lnetdctl doctor finds
	go test -count=1 -run '^TestPage$$' ./internal/lnetd/diagnosis -update

metrics-page: ## docs/metrics.md: names, types and labels of metrics
	go test -count=1 -run '^TestNames$$' ./internal/lnetd/metrics -update

man: ## docs/man: manual pages, from the texts of --help and the reference configuration
	go test -count=1 -run '^TestManualPages$$' ./cmd/lnetd ./cmd/lnetdctl ./cmd/lnetperf ./cmd/lnet-mpi-proxy -update

tunables: ## files made from the tables of drivers and of the node: the lists for lnetdctl, the schema, manual pages
	go test -count=1 ./internal/lnetd/drivers ./internal/lnetd/control/parameters -update
	go test -count=1 -run '^Test(SchemaIsUpToDate|TunablesOfPage)$$' ./internal/lnetd/config -update
	$(MAKE) man

packages: ## .deb, .rpm, archives, SBOMs and a container image into bin/packages; O2IB_ARCHES=amd64, LIB_ARCHES=amd64, MPI_ARCHES=amd64: with lnetd-o2ib, liblnetd, LNet over MPI
	deploy/packages/build

release: ## the same with lnetd-o2ib and liblnetd into bin/release, signed with SIGNING_KEY
	.ci/run release

ci: ## all of .ci/run
	.ci/run

clean: ## remove bin/
	rm -rf bin
