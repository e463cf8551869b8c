# Everything a contributor runs; `make help` lists it. The gate is .ci/run.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

# Only a label in `sigma version`: a tree without git builds just as well.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# The race detector costs ten times the CPU: only packages that start goroutines or lock.
# internal/archtest compares the list with the code.
RACE := ./binpack/plan ./binpack/policy ./swarm ./internal/compare ./internal/train/... ./internal/tune ./internal/scaling ./flow/sim ./flow/node/... ./flow/follow ./internal/flows \
	./plugins/apis/config/scheme ./plugins/engine ./plugins/evict ./plugins/drain ./plugins/expander ./plugins/extender ./plugins/pilot/control ./plugins/pilot/record ./plugins/pricelist ./plugins/sigma ./plugins/snapshot \
	./internal/cputime ./internal/serve/... ./internal/usage/prometheus/... ./mpa/gate ./mpa/collect ./mpa/reach ./mpa/history ./mpa/recommender ./mpa/share ./mpa/updater ./mpa/admission ./mpa/batch ./cmd/internal/start ./cmd/sigma-extender ./cmd/sigma-flow ./cmd/sigma-gate
RACE_LAB := ./contest ./podspace ./records/... ./safety

# Total, shared evenly by all fuzz targets.
FUZZTIME ?= 60s

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## bin/sigma, the command line (a minute cold)
	go build -trimpath -buildvcs=false -ldflags '-X main.version=$(VERSION)' -o bin/sigma ./cmd/sigma

.PHONY: lab
lab: ## bin/sigma-lab, the laboratory's command line (lab/README.md)
	go build -C lab -trimpath -buildvcs=false -ldflags '-X main.version=$(VERSION)' -o ../bin/sigma-lab ./cmd/sigma-lab

.PHONY: test
test: ## the fast suite of the product and of the laboratory (85 to 170 CPU-seconds where all is built)
	go test -timeout=20m ./...
	go test -C lab -timeout=20m $$(cd lab && go list ./... | grep -v /oracle)

.PHONY: images
images: ## images of the programs for amd64 and arm64 in out/images by ko, without Docker; PROGRAMS=sigma,sigma-mpa (10 CPU-minutes cold)
	@VERSION='$(VERSION)' PROGRAMS='$(PROGRAMS)' hack/release/run.sh images out/images

.PHONY: push
push: ## push the images of out/images to REGISTRY/PROGRAM:VERSION, with the credentials that Docker or Podman keeps
	@VERSION='$(VERSION)' REGISTRY='$(REGISTRY)' hack/release/run.sh push out/images

.PHONY: chart
chart: ## the Helm chart of manifests/chart with its version in out/chart/sigma
	@VERSION='$(VERSION)' hack/release/run.sh chart out/chart/sigma

.PHONY: release
release: ## all that users install in out/release, and the images for `make push`; REGISTRY=… VERSION=… URL=… (docs/releasing.md)
	@VERSION='$(VERSION)' REGISTRY='$(REGISTRY)' URL='$(URL)' hack/release/run.sh release out/release

.PHONY: release-test
release-test: ## build, push, pull and run every image of this architecture; the chart's objects are kustomize's; SHORT=-short: for no other system (4 CPU-minutes cold)
	cd hack/release && go test -timeout=40m $(SHORT) ./...

.PHONY: race
race: ## the race detector on the packages that start goroutines; WITHOUT=k8s.io/client-go: on none that imports it
	CGO_ENABLED=1 go test -race -short $$(hack/without.sh '$(WITHOUT)' $(RACE))
	CGO_ENABLED=1 go test -race -short -run ServesMany ./binpack/learned/planned
	[[ -n '$(WITHOUT)' ]] || CGO_ENABLED=1 go test -race -short -run '^TestProgress' ./internal/cli
	CGO_ENABLED=1 go test -C lab -race -short $(RACE_LAB)

.PHONY: race-stress
race-stress: ## the race detector on packages with most goroutines, ROUNDS=20 of each under load: writes docs/results/race-stress.md (an hour)
	@hack/race-stress.sh

.PHONY: lint
lint: ## golangci-lint as pinned in hack/lint (the first run builds it and fills its cache, and may wait for minutes)
	hack/lint/run.sh
	LINT_DIR='$(CURDIR)/lab' hack/lint/run.sh
	LINT_DIR='$(CURDIR)/lab/concurrency' hack/lint/run.sh
	LINT_DIR='$(CURDIR)/hack/release' hack/lint/run.sh

.PHONY: vuln
vuln: ## known vulnerabilities in what this tree reaches; not in the gate, since it needs the database (vuln.go.dev; VULNDB=URL, or =vulndb.zip for a file of it)
	hack/vuln/run.sh

.PHONY: vuln-test
vuln-test: ## `make vuln` finds a vulnerability in a database of files, by path and by URL (45 CPU-seconds)
	cd hack/vuln && go test -count=1 ./...

.PHONY: fuzz
fuzz: ## every fuzz target in turn, FUZZTIME=60s in all; WITHOUT=k8s.io: none of packages that import it
	hack/fuzz.sh $(FUZZTIME) $(WITHOUT)

.PHONY: bench
bench: ## speed of the packing core as Markdown: ratios to plain twins and rates by size (5 CPU-minutes)
	@hack/bench.sh

.PHONY: bench-replay
bench-replay: ## placements per CPU-second of a replay of 1,000 and 5,000 nodes, beside Best-Fit and the commit before (3 CPU-minutes; NODES=, BASE=, ROUNDS=)
	@hack/bench-replay.sh

.PHONY: bench-commands
bench-commands: ## CPU-seconds of the commands on a snapshot of 1,000 and 5,000 nodes, the exponent, and the commit before (an hour; NODES=, PODS=, BASE=, LIMIT=)
	@hack/bench-commands.sh

.PHONY: soak
soak: ## 10^6 events through engine, extender and recommender: what they hold, to docs/results/soak.md (15 CPU-minutes)
	@lab/soak/run.sh

.PHONY: moves-properties
moves-properties: ## every step of 10^6 random sequences of moves, to docs/results/moves-properties.md (20 CPU-minutes; goes on after a stop)
	@hack/moves-properties.sh

.PHONY: preferences-cost
preferences-cost: ## what preferences and a share of an app cost on 40 generated clusters, to docs/results/preferences.md (half a CPU-minute)
	@hack/preferences-cost.sh

.PHONY: preferences-properties
preferences-properties: ## 10^5 random placements against a model of the soft rule, and hard zones through moves and reservations, to docs/results/preferences-properties.md (3 CPU-minutes)
	@hack/preferences-properties.sh

.PHONY: mpa-bench
mpa-bench: ## speed of the autoscaler's simulator and decisions as Markdown (2 CPU-minutes)
	@hack/bench.sh mpa

.PHONY: flow-kernel
flow-kernel: ## flows of real connections in one queue and in bands, as root: writes docs/results/flow-kernel.md (15 minutes, most of them waiting)
	SIGMA_COMMIT=$$(git rev-parse --short HEAD) SIGMA_KERNEL='$(CURDIR)/docs/results/flow-kernel.md' go test ./cmd/sigma-flow -run '^TestKernel$$' -count=1 -timeout=60m -v

.PHONY: flow-messages
flow-messages: ## messages of persistent connections in one queue and in bands, as root: writes docs/results/flow-messages.md (5 minutes, most of them waiting)
	SIGMA_COMMIT=$$(git rev-parse --short HEAD) SIGMA_KERNEL_MESSAGES='$(CURDIR)/docs/results/flow-messages.md' go test ./cmd/sigma-flow -run '^TestKernelMessages$$' -count=1 -timeout=60m -v

.PHONY: flow-line
flow-line: ## a full line with the order and an agent, and without, as root: writes docs/results/flow-line.md (2 minutes)
	SIGMA_COMMIT=$$(git rev-parse --short HEAD) SIGMA_KERNEL_LINE='$(CURDIR)/docs/results/flow-line.md' go test ./cmd/sigma-flow -run '^TestLine$$' -count=1 -timeout=30m -v

.PHONY: flow-faults
flow-faults: ## faults while flows pass through an ordered uplink, ROUNDS=20 of each, as root: writes docs/results/flow-faults.md (2 minutes)
	@hack/flow-faults.sh

.PHONY: flow-hints
flow-hints: ## flows of real connections in bands, with sizes that are known and without, as root: writes docs/results/flow-hints.md (10 minutes, most of them waiting)
	SIGMA_COMMIT=$$(git rev-parse --short HEAD) SIGMA_KERNEL_HINTS='$(CURDIR)/docs/results/flow-hints.md' go test ./cmd/sigma-flow -run '^TestKernelHints$$' -count=1 -timeout=60m -v

.PHONY: flow-bench
flow-bench: ## the simulator of flows against theory, against the exact fabric, and its speed, as Markdown (1 CPU-minute)
	@hack/bench.sh flow

.PHONY: flow-records
flow-records: ## figures of the simulator of flows beside their targets, and the paper's agents as controls, as Markdown (9 CPU-minutes)
	@hack/bench.sh flow-records

.PHONY: mpa-drift
mpa-drift: ## how soon `learned` finds a changed workload, and how often one that has not changed (SIDE=test; 1 CPU-minute)
	go test ./internal/scaling -count=1 -v -run '^TestDriftIsFound$$' -drift-runs 60 -drift-days 30 -drift-side $(or $(SIDE),train)

.PHONY: mpa-validate
mpa-validate: lab ## the autoscaler's simulator against theory and a real server (10 minutes, root, a quiet machine)
	bin/sigma-lab records validate

.PHONY: bench-scheduler
bench-scheduler: ## pods per CPU-second of scheduler profiles, with Sigma and without (10 CPU-minutes; NODES="1000 5000": 50)
	@lab/schedulerperf/run.sh

.PHONY: records
records: build lab ## placement figures against their targets: writes docs/results (SECTION=name: one part; all of it: an hour of CPU)
	bin/sigma-lab records placement $(SECTION)

.PHONY: usage-records
usage-records: build lab ## machines by the measured use of workloads, and its risk: writes docs/results/usage.md (8 CPU-minutes)
	bin/sigma-lab records usage

.PHONY: batch-records
batch-records: build lab ## batch work on the cpu that online workloads leave: writes docs/results/batch.md (1 CPU-minute)
	bin/sigma-lab records batch

.PHONY: usage-prometheus
usage-prometheus: ## 28 days of 2,000 workloads from a real Prometheus of made-up series: writes docs/results/usage-prometheus.md (10 CPU-minutes)
	@hack/usage-prometheus.sh

.PHONY: savings-dumps
savings-dumps: build lab ## `sigma savings` on five dumps that nobody tuned for, checked: writes docs/results/savings-dumps.md (15 CPU-minutes; SIGMA_CHECKER=FILE.py: by another checker too)
	bin/sigma-lab records savings

.PHONY: month-records
month-records: build lab ## a month of clusters under whole stacks: writes docs/results/month.md (an hour of CPU; FLAGS='--clusters 4 --days 7')
	bin/sigma-lab records month $(FLAGS)

.PHONY: tune-records
tune-records: ## what `sigma tune` saves on unseen clusters: writes docs/results/tune.md (40 CPU-minutes)
	@hack/tune-records.sh

.PHONY: pilot-records
pilot-records: ## a month under the pilot's loop on ten clusters, and promises against what came on twenty: writes docs/results/pilot.md (5 CPU-minutes; SEED=first)
	@hack/pilot-records.sh

.PHONY: pilot-recording
pilot-recording: ## a million events recorded in segments: writes docs/results/pilot-recording.md (3 CPU-minutes; EVENTS=1000000)
	@hack/pilot-recording.sh

.PHONY: pilot-faults
pilot-faults: ## faults of the pilot in each phase, ROUNDS=5 of each (5 minutes)
	SIGMA_ROUNDS=$(or $(ROUNDS),5) go test -v -count=1 -timeout 1h -run '^Test(Faults|NoRoom|VolumeFull)' ./plugins/pilot/control

.PHONY: mpa-records
mpa-records: lab ## autoscaling agents on train and test scenarios: writes docs/results (SIDE=train: one part; all of it: half an hour of CPU)
	bin/sigma-lab records autoscaler $(SIDE)

.PHONY: aware-records
aware-records: build lab ## AWARE's claims and agent on the simulator: writes docs/aware-records.md and networks (at most 30 CPU-minutes)
	bin/sigma-lab records aware

.PHONY: mpa-safety
mpa-safety: lab ## agents on 1,000 generated test scenarios, 300 of them hostile: writes docs/results/mpa-safety.md (8 CPU-minutes; NETWORK=FILE: one of aware-records, in its band)
	bin/sigma-lab records safety $(if $(NETWORK),--network '$(NETWORK)')

.PHONY: gate-bench
gate-bench: ## cpu of the gate beside a bare reverse proxy, and the next: writes docs/results/gate.md (2 CPU-minutes)
	@hack/gate-bench.sh

.PHONY: gate-limits
gate-limits: ## 10^6 requests through a gate whose limit changes 1,000 times (10 CPU-seconds)
	@hack/gate-limits.sh

.PHONY: gate-transparent
gate-transparent: ## 10^5 drawn requests with the gate and without, byte by byte: writes docs/results/gate-transparent.md (3 CPU-minutes)
	@hack/gate-transparent.sh

.PHONY: gate-leavers
gate-leavers: ## 10^4 random schedules of callers that leave a server that works on: writes docs/results/gate-leavers.md (3 CPU-minutes)
	@hack/gate-leavers.sh

.PHONY: manifest-table
manifest-table: ## what a plan makes of public manifests, of Go modules or MANIFESTS='NAME=FOLDER …': writes docs/results/manifests.md (15 CPU-seconds)
	@hack/manifest-table.sh

.PHONY: egress-records
egress-records: ## what counting egress is worth on 20 generated clusters: writes docs/results/egress.md (2 CPU-minutes)
	@hack/egress-records.sh

.PHONY: mpa-limit-faults
mpa-limit-faults: ## faults while a limit is learned and applied, ROUNDS=20 of each: writes docs/results/mpa-limit-faults.md (10 CPU-minutes)
	@hack/mpa-limit-faults.sh

.PHONY: usage-faults
usage-faults: ## faults of sizes by use, of relief and of batch work, ROUNDS=20 of each: writes docs/results/usage-faults.md (6 CPU-minutes)
	@hack/usage-faults.sh

.PHONY: mpa-knative-faults
mpa-knative-faults: ## faults while a Knative Service gets what was learned, ROUNDS=20 of each: writes docs/results/mpa-knative-faults.md (5 CPU-minutes)
	@hack/mpa-knative-faults.sh

.PHONY: concurrency-days
concurrency-days: build lab ## days with a learned capacity beside hpa-70 and Knative's autoscaler: writes docs/results/concurrency-days.md (5 CPU-minutes)
	bin/sigma-lab records concurrency

.PHONY: concurrency
concurrency: ## real functions in their cgroups behind the gate, and behind Knative's queue-proxy, as root: short (50 CPU-seconds where all is built)
	cd lab/concurrency && go vet . && go test .

.PHONY: concurrency-validation
concurrency-validation: ## learned limits and simulated curves beside real functions, as root: writes docs/concurrency-validation.md (15 minutes, a quiet machine)
	go build -trimpath -o out/concurrency/sigma-gate ./cmd/sigma-gate
	cd lab/concurrency && go run . page

.PHONY: knative-restarts
knative-restarts: ## restarts of Knative's autoscaler and activators under canaries, ROUNDS=20 of each, as root: writes docs/results/knative-restarts.md (25 minutes)
	@hack/knative-restarts.sh

.PHONY: knative-loop
knative-loop: ## settings of a Knative Service with the real queue-proxy and autoscaler, as root: writes docs/results/knative-loop.md (40 minutes, a quiet machine; FLAGS='--parts gate')
	go build -trimpath -o out/concurrency/sigma-gate ./cmd/sigma-gate
	cd hack/knative && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o ../../out/concurrency/queue knative.dev/serving/cmd/queue
	cd lab/concurrency && go run . knative --queue ../../out/concurrency/queue $(FLAGS)

.PHONY: oracle
oracle: ## differential tests against other people's implementations, where they exist
	cd lab && go test ./oracle
	cd lab/oracle/vpa && go test ./...
	cd lab/concurrency && go test ./kpa

.PHONY: oracle-constraints
oracle-constraints: ## the model of constraints beside kube-scheduler's filters, CLUSTERS=10000: writes docs/results/oracle-constraints.md (10 CPU-minutes; NEXT=1: the next Kubernetes)
	@hack/oracle-constraints.sh

.PHONY: controlplane
controlplane: ## build etcd and Kubernetes, test that they start and stop (7 CPU-minutes cold, 15 CPU-seconds warm)
	lab/controlplane/build.sh >/dev/null
	cd lab/controlplane && CGO_ENABLED=0 go test -trimpath -count=1 ./...

.PHONY: e2e
e2e: ## all programs against a real control plane (40 minutes); one test: hack/e2e.sh -run TestGang -v
	@hack/e2e.sh

# A story of each program, live = simulated, and faults: a lost binding, killed autoscalers, a worse limit.
STORIES := FirstHour|Install|Helm|LiveEqualsSimulated|BindingAnswerLost|ExtenderIsNeeded|Gang|MakeRoom|DrawnMoves|RebalanceAuto|Pilot|FlowPolicy|FlowsAgent|MPARecommends|MPAKills|MPALimits|UpdaterScalesAndResizes|Admission
.PHONY: stories
stories: ## the part of e2e that the gate runs
	@TESTS='^Test($(STORIES))$$' hack/e2e.sh

.PHONY: same
same: ## outputs of sigma on twenty generated inputs next to those of BEFORE=COMMIT, byte for byte (2 CPU-minutes)
	@hack/same.sh '$(BEFORE)'

.PHONY: nightly
nightly: ## all of e2e and the other long checks that the gate leaves out: writes out/nightly/page.md (3 hours)
	@hack/nightly.sh

# What runs on the next Kubernetes too.
NEXT := Install|SecondScheduler|ExtenderOverlay|ReplaceScheduler|LiveEqualsSimulated|GangByPolicy|RejectedGang|ExtendedResourceOfDriver|ResizeInPlace|MPAPage|MPALive|MPARecommends|UpdaterScalesAndResizes|Admission
.PHONY: e2e-matrix
e2e-matrix: ## the install pages, live = simulated and the autoscaler's basics on the next Kubernetes (8 CPU-minutes cold, and 10)
	@CONTROLPLANE_LINE=next hack/e2e.sh -short -v -run '^Test($(NEXT))$$'

.PHONY: e2e-upgrade
e2e-upgrade: ## from the programs and manifests of BEFORE=35cf6bd to these on one control plane, and back (5 CPU-minutes cold, and 5)
	@hack/upgrade.sh

.PHONY: e2e-faults
e2e-faults: ## lost answers to bindings with the watch held, late or out of step, ROUNDS=20 of each (10 minutes)
	@SIGMA_ROUNDS=$(or $(ROUNDS),20) hack/e2e.sh -v -run '^TestLostAnswers$$'

.PHONY: e2e-mpa-faults
e2e-mpa-faults: ## faults of metrics, targets, resizes and processes of the autoscaler, ROUNDS=5 of each (15 minutes)
	@SIGMA_ROUNDS=$(or $(ROUNDS),5) hack/e2e.sh -v -run '^TestMPA(MetricsFaults|TargetFaults|ResizeFaults|Kills)$$'

.PHONY: e2e-identity
e2e-identity: ## live = simulated on 1,000 nodes with 5,000 pods, plugin and extender (10 minutes)
	@SIGMA_IDENTITY=$(or $(SIZE),1000x5000) hack/e2e.sh -v -run '^TestLiveEqualsSimulated$$'

.PHONY: e2e-plan
e2e-plan: ## a plan of 5,000 pods into 1,000 nodes, and a lost node planned again (docs/results/plan-live.md)
	@SIGMA_PLAN=$(or $(SIZE),1000x50x100) hack/e2e.sh -v -run '^TestPlan$$'

.PHONY: e2e-rebalance
e2e-rebalance: ## the plan of a Rebalance beside the command's, 5,000 pods on 1,000 nodes (docs/results/rebalance-live.md)
	@SIGMA_REBALANCE=$(or $(SIZE),1000x336x4) hack/e2e.sh -v -run '^TestRebalance$$'

.PHONY: moves-drawn
moves-drawn: ## moves of generated pods on a real control plane, CLUSTERS=60 ROUNDS=10: writes docs/results/moves-drawn.md (hours)
	@hack/moves-drawn.sh

.PHONY: e2e-moves-land
e2e-moves-land: ## moves of Rebalances and of make-room where others write too, 5,000 pods on 1,000 nodes (docs/results/moves-live.md; 20 minutes)
	@SIGMA_MOVES=$(or $(SIZE),1000x336x4) SIGMA_CROWD=$(or $(CROWD),1000) hack/e2e.sh -v -run '^Test(MovesLand|MakeRoomInACrowd)$$'

.PHONY: e2e-rebalance-faults
e2e-rebalance-faults: ## faults of Rebalances in mode Auto at every step, ROUNDS=5 of each, in as many clusters (15 minutes)
	@SIGMA_ROUNDS=$(or $(ROUNDS),5) hack/e2e.sh -v -parallel $(or $(ROUNDS),5) -run '^TestRebalanceFaults$$'

.PHONY: e2e-moves
e2e-moves: ## faults of chains of moves at every moment, ROUNDS=5 of each, and preemption beside make-room (20 minutes)
	@SIGMA_ROUNDS=$(or $(ROUNDS),5) hack/e2e.sh -v -run '^Test(MoveFaults|PreemptionBesideMakeRoom)$$'

.PHONY: bump
bump: ## type-check all modules that import Kubernetes: the first thing after new versions (30 CPU-seconds)
	cd hack/bump && go run . ../.. ../../lab ../../lab/schedulerperf ../../lab/controlplane

.PHONY: browser
browser: ## the reports in a headless Chromium, if there is one
	hack/browser/run.sh

.PHONY: demo
demo: lab ## the product in one go, on generated data (DEMO_BUDGET=ci: a short one)
	@bin/sigma-lab records cpu hack/demo.sh

.PHONY: policies
policies: ## make each learned file that ships again, and fail if a byte differs; POLICIES=… for others of hack/policies.sh; k1-devices reads SIGMA_DATA (a quarter of an hour of CPU)
	hack/policies.sh $(or $(POLICIES),k1-clock large-k1 k1-devices k1 kubernetes-k0-fixed kubernetes-k0)
	git diff --stat --exit-code -- benchdata/policies lab/policies

.PHONY: golden
golden: ## rewrite expected outputs and the tables of docs/features.md; read the diff before you commit it
	@packages=$$(grep -rlE --include='*_test.go' 'flag.Bool\("rewrite"|cockroachdb/datadriven' . | grep -vE '^./(hack|lab|out)/' | xargs -r -n1 dirname | sort -u); \
	if [[ -z $$packages ]]; then echo 'no scenarios in this tree'; else go test $$packages -rewrite; fi

.PHONY: tidy
tidy: ## go mod tidy, and no file that gofmt would change
	go mod tidy
	cd lab && go mod tidy
	@unformatted=$$(git ls-files -co --exclude-standard '*.go' | xargs -r gofmt -l); \
	if [[ -n $$unformatted ]]; then printf 'gofmt -w these:\n%s\n' "$$unformatted" >&2; exit 1; fi

.PHONY: presubmit
presubmit: tidy lint test race ## what to run before a commit
