#!/usr/bin/env bash
# Faults while a Knative Service gets what was learned, ROUNDS of each (20). Writes
# docs/results/mpa-knative-faults.md; another page: hack/mpa-knative-faults.sh FILE.
set -euo pipefail
cd "$(dirname "$0")/.."

page=${1:-docs/results/mpa-knative-faults.md}
rounds=${ROUNDS:-20}
commit=$(git rev-parse --short HEAD)
dir=out/mpa-knative-faults/$commit
mkdir -p "$dir"
SIGMA_ROUNDS=$rounds go test -trimpath -count=1 -timeout 1h -v -run '^TestKnativeFaults$' ./mpa/updater >"$dir/updater.txt" || {
	grep -v '^=== ' "$dir/updater.txt" >&2
	exit 1
}
{
	cat <<'TEXT'
# Faults while a Knative Service gets what was learned

An updater in virtual time looks every 10 s after a Service with 50 to 500 requests a second. A simulated Knative makes a Revision of each template, which is ready after 1 to 60 s, and leads the traffic as the Service says; what both Revisions
do is told to the updater as the recommender does. Each round draws another setting that was learned, and the moment, up to five minutes, at which the fault comes. Each round asks for: the traffic is split only while a canary is
under way, and in one piece at the end, as the Service had it before or as its user says; no Revision of ours gets more than a tenth, or half where it has shown that it does no harm, before it was promoted, nor one that is not ready anything; never two of ours get something; the template is the user's again where ours was
taken back; no request is lost, but where the fault is that the new Revision loses them: there at most what half a minute of its tenth loses. *Canaries* are Revisions with the learned numbers; an edit of the template while one is under way makes another. *Minutes* are those with a split, for each round. The simulation has
no activator, no queue before a pod, no webhook but for the fault that says so, and no idle pods: that no request is lost means that none was led to a Revision that was not ready.

Where a row names a target, the new Revision was promoted, and then another target was learned: the fault comes while the Revision is measured, written or measured again. There each round asks also that no other Revision is made, but by a user's edit, and that at the end the Revision has the annotations that it was made with, or those that were learned,
or a user's: as the row and the state say. A target that loses requests does so with all of them: at most what a minute loses.

| fault | rounds | canaries | promoted | taken back | minutes | lost |
|---|---:|---:|---:|---:|---:|---:|
TEXT
	sed -n 's/^ *knative_faults_test.go:[0-9]*: |/|/p' "$dir/updater.txt"
	cat <<'TEXT'

Where an object or a Service is deleted, nothing is left that could be promoted or taken back; where no Revision becomes ready any more, the one of before keeps all requests.

TEXT
	echo "\`make mpa-knative-faults\` at commit $commit."
} >"$dir/page.md"
cp "$dir/page.md" "$page"
