#!/usr/bin/env bash
# Reads weeks of use of many workloads from a real Prometheus of made-up series, twice, and writes
# docs/results/usage-prometheus.md; another page: hack/usage-prometheus.sh FILE.
# SIZE=2000x3000x28: workloads, pods and days.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

page=${1:-docs/results/usage-prometheus.md}
IFS=x read -r workloads pods days <<<"${SIZE:-2000x3000x28}"
commit=$(git rev-parse --short HEAD)
programs=$(lab/prometheus/build.sh)
dir=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true; rm -rf "$dir"' EXIT
go build -o "$dir/sigma" ./cmd/sigma

# A pod has a mean of 50 to 220m and of 300 MiB, a day's swing of half, noise of 30 % at each scrape, and counters
# that are reset every 1 to 20 days; a third of the pods had another name until a week ago.
today=$(($(date +%s) / 86400 * 86400))
awk -v workloads="$workloads" -v pods="$pods" -v days="$days" -v today="$today" -v dump="$dir/cluster.json" '
function series(pod, from, until, seed, i) {
	common = "\"From\":" from ",\"Until\":" until ",\"Swing\":0.5,\"Noise\":0.3,\"Seed\":" seed ",\"Labels\":{\"namespace\":\"shop\",\"pod\":\"" pod "\",\"container\":\"main\",\"id\":\"/kubepods/" pod "\",\"job\":\"kubelet\",\"__name__\":"
	print "{\"Counter\":true,\"Reset\":" 86400 * (1 + i % 20) ",\"Mean\":" .05 + .17 * (i % 7) / 6 "," common "\"container_cpu_usage_seconds_total\"}}"
	print "{\"Mean\":314572800," common "\"container_memory_working_set_bytes\"}}"
}
BEGIN {
	printf "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[" >dump
	for (n = 0; n * 100 < pods; n++)
		printf "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"node-%03d\"},\"status\":{\"allocatable\":{\"cpu\":\"96\",\"memory\":\"768Gi\",\"pods\":\"110\"},\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}},\n", n >dump
	for (i = 0; i < pods; i++) {
		app = "app-" i % workloads; name = app "-5d8f7c-" sprintf("%05d", i); gsub(/0/, "b", name); gsub(/1/, "c", name); gsub(/3/, "d", name)
		sub(/^app-[^-]*/, app, name)
		printf "%s{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"namespace\":\"shop\",\"name\":\"%s\",\"uid\":\"%d\",\"labels\":{\"pod-template-hash\":\"5d8f7c\"},\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"kind\":\"ReplicaSet\",\"name\":\"%s-5d8f7c\",\"uid\":\"rs-%s\",\"controller\":true}]},\"spec\":{\"nodeName\":\"node-%03d\",\"containers\":[{\"name\":\"main\",\"resources\":{\"requests\":{\"cpu\":\"500m\",\"memory\":\"1Gi\"}}}]},\"status\":{\"phase\":\"Running\"}}", i ? ",\n" : "", name, i, app, app, int(i / 100) >dump
		from = today - days * 86400
		if (i % 3 == 0) {
			former = name; sub(/5d8f7c/, "6c9d8f", former)
			series(former, from, today - 7 * 86400, i + 1000000, i)
			from = today - 7 * 86400
		}
		series(name, from, today, i, i)
	}
	print "]}" >dump
}' >"$dir/series.jsonl"
mkdir "$dir/data"
"$programs/fill" --out "$dir/data" --interval 60s <"$dir/series.jsonl"
size=$(du -sm "$dir/data" | cut -f1)
echo "global: {scrape_interval: 1m}" >"$dir/prometheus.yml"
port=$((20000 + RANDOM % 10000))
"$programs/prometheus" --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/data" --storage.tsdb.retention.time=90d \
	--storage.tsdb.min-block-duration=2h --storage.tsdb.max-block-duration=1d --web.listen-address="127.0.0.1:$port" >"$dir/prometheus.log" 2>&1 &
server=$!
for ((i = 0; ; i++)); do
	curl -sf "http://127.0.0.1:$port/-/ready" >/dev/null && break
	((i < 240)) || { tail "$dir/prometheus.log" >&2 && exit 1; }
	sleep .5
done
served() { awk -v ticks="$(getconf CLK_TCK)" '{print ($14 + $15) / ticks}' "/proc/$server/stat"; } # CPU-seconds of Prometheus
snapshot() { # NAME: seconds, CPU-seconds of both programs and MiB of a snapshot
	local before
	before=$(served)
	/usr/bin/env time -f '%e %U %S %M' -o "$dir/$1.time" \
		"$dir/sigma" snapshot --from "$dir/cluster.json" --out "$dir/$1" --history "$dir/days" --usage --prometheus "http://127.0.0.1:$port" --quiet \
		>"$dir/$1.txt" 2>"$dir/$1.err" || { cat "$dir/$1.err" "$dir/$1.txt" >&2 && exit 1; }
	awk -v served="$(served)" -v before="$before" '{printf "%.0f s | %.0f s | %.0f s | %.0f MiB", $1, $2 + $3, served - before, $4 / 1024}' "$dir/$1.time"
}
load=$(cut -d' ' -f1 /proc/loadavg)
first=$(snapshot first)
refused=$(curl -s "http://127.0.0.1:$port/metrics" | awk '/^prometheus_http_requests_total\{code="[^2][0-9][0-9]",handler="\/api\/v1\/query/ {n += $2} END {print n + 0}')
again=$(snapshot again)
files=$(du -sm "$dir/days" | cut -f1)
{
	cat <<TEXT
# Reading use from Prometheus

$days days of $workloads workloads with $pods pods in a real Prometheus of made-up series, scraped once a minute ($size MiB of blocks), on
two cores that both programs share (load of the machine before: $load). A third of the pods had another name until a week ago, and counters are reset.
Must: at most 5 minutes and 500 MiB, and no query refused. Aim: a minute.

| \`sigma snapshot --usage\` | time | its CPU time | that of Prometheus | most memory |
| --- | ---: | ---: | ---: | ---: |
| the first | $first |
| again, all days in files | $again |

Queries that Prometheus refused: $refused. The files of the days have $files MiB.

\`\`\`
$(grep -v '^  \|^[0-9]* of [0-9]* apps use' "$dir/first.txt" | sed "s|$dir/||")
\`\`\`

\`make usage-prometheus\` at commit $commit.
TEXT
} >"$page.new"
mv "$page.new" "$page"
