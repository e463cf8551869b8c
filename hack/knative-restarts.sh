#!/usr/bin/env bash
# Restarts of Knative's autoscaler and activators while the numbers of a Service are tried, ROUNDS of
# each (20), as root. Writes docs/results/knative-restarts.md; another page: hack/knative-restarts.sh FILE.
set -euo pipefail
cd "$(dirname "$0")/.."

page=${1:-docs/results/knative-restarts.md}
rounds=${ROUNDS:-20}
commit=$(git rev-parse --short HEAD)
dir=out/knative-restarts/$commit
mkdir -p "$dir"
SIGMA_CGROUPS=1 SIGMA_ROUNDS=$rounds hack/e2e.sh -v -run '^TestKnativeRestarts$' >"$dir/e2e.txt" 2>&1 || {
	grep -v '^=== ' "$dir/e2e.txt" >&2
	exit 1
}
{
	cat <<'TEXT'
# Restarts of Knative's autoscaler and activator

Controller, autoscaler, webhook, queue-proxy and two activators of Knative Serving v0.48.0 are processes, and so is the updater, with the rights of the manifests. All requests go through the activators (`target-burst-capacity: "-1"`), which the Endpoints of each Revision say, to
[functions](../concurrency-validation.md) behind queue-proxy. Kubelet and ingress are played; so is the recommender: it says what was learned, and of each Revision what the client saw. `--canary-least` is 2 s.

Each round has two new Services with 200 and 100 requests a second. Of one the new Revision loses fewer requests than the old one, of the other nearly all. The fault comes up to 4 s after the numbers were learned, and once more up to 3 s after another target of the Revision that
was promoted is measured. Each round asks for: the first Service has 10 % and then 50 % of its requests at the new Revision, and then all; the other 10 %, and then all at the old one, and in the end at a third with the former numbers; the target is kept, and comes to Knative's
PodAutoscaler, or is taken back where an activator was killed: it is compared with what was before, and the function has connections still that lost requests hold; no other split, no other Revision, and all requests by activators at the end.

- **The autoscaler is killed** (`kill -9`), and started again at once. The activators say that they are not ready while it is away, which the kubelet passes on after 25 s only.
- **One of two activators is killed** (`kill -9`). After a second it leaves the Endpoints, as the kubelet sees that a container ended, and is started again in the same pod. What was in it is lost, whatever Revision it was for, and what comes in that second: nothing here tries such a request again, as some ingresses do. So are the
  few that find no connection of the function as a lost one still holds it.
- **An activator is asked to end** (SIGTERM), as in a rolling update: another one is ready before. It leaves the Endpoints and ends by itself after 45 s, in which others may be asked to end too.

| fault | rounds | promoted | taken back | targets kept | targets taken back | requests | lost by the Revision that is taken back | lost by the killed activator | lost else |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|
TEXT
	sed -n 's/^ *knative_restarts_test.go:[0-9]*: |/|/p' "$dir/e2e.txt"
	cat <<'TEXT'

Requests of the first Service that find no connection of the function at the former Revision, which has no limit, are none of these.

TEXT
	echo "\`make knative-restarts\` at commit $commit."
} >"$dir/page.md"
cp "$dir/page.md" "$page"
