#!/usr/bin/env bash
# CPU-seconds of the commands that read a cluster's snapshot, by nodes, and the exponent of their growth, as Markdown on stdout.
# Every command takes turns with the commit BASE; its outputs must be equal unless DIFFER=1.
#   make bench-commands, NODES="1000 5000" BASE=HEAD~1 PODS=30 LIMIT=300
# A command that takes more than LIMIT seconds is ended, and has no figure.
set -euo pipefail
cd "$(dirname "$0")/.."
read -r small large <<<"${NODES:-1000 5000}"
base=$(git rev-parse --short "${BASE:-HEAD~1}")
limit=${LIMIT:-300}
dir=$(mktemp -d)
trap 'git worktree remove --force "$dir/base" 2>"$dir/err" || true; rm -rf "$dir"' EXIT
git worktree add --detach -q "$dir/base" "$base"
go build -o "$dir/now" ./cmd/sigma
go build -C lab -o "$dir/lab" ./cmd/sigma-lab
(cd "$dir/base" && go build -o "$dir/before" ./cmd/sigma)

for n in "$small" "$large"; do
	"$dir/lab" dump --nodes "$n" --pods "${PODS:-30}" --seed 1 --out "$dir/$n.json.gz" >"$dir/out"
	"$dir/now" snapshot --from "$dir/$n.json.gz" --out "$dir/$n" >"$dir/out" 2>&1
done

# commands: a name, then the arguments; DIR and DUMP are replaced. Those with a search have a small one.
commands() {
	cat <<-'LIST'
		compare, with current	compare --trace DIR --policy current,bestfit,learned --format json --workers 1
		tune, rules and files only	tune --trace DIR --seeds 0 --format json --workers 1 --out OUT
		rebalance	rebalance --trace DIR --format json --out OUT
		plan	plan --trace DIR --format json --workers 1
		plan --repack	plan --trace DIR --repack --starts 1 --format json --workers 1
		whatif	whatif --trace DIR --add 20% --starts 1 --format json --workers 1
		bound	bound --trace DIR --format json
		savings	savings --from DUMP --format json
	LIST
}

# spent PROGRAM NODES ARGUMENTS…: the CPU-seconds of a command; "–" if it was ended or failed.
spent() {
	local program=$1 n=$2 status=0 args
	shift 2
	args=("${@//DIR/$dir/$n}")
	args=("${args[@]//DUMP/$dir/$n.json.gz}")
	rm -rf "$dir/result"
	args=("${args[@]//OUT/$dir/result}")
	command time -f '%U %S' -o "$dir/time" timeout "$limit" "$dir/$program" "${args[@]}" >"$dir/$program.out" 2>"$dir/$program.err" || status=$?
	if ((status == 124)); then
		echo "> $limit"
	elif ((status > 1)) || [[ $status == 1 && ! -s $dir/$program.out ]]; then # 1 with an output: items have no place
		sed "s|^|$program ${args[0]}: |" "$dir/$program.err" | tail -n 3 >&2
		echo "–"
	else
		awk 'END { printf "%.2f\n", $1 + $2 }' "$dir/time"
	fi
}

echo "| CPU-seconds | $small nodes | $large | exponent | $base: $small | $large | exponent | output |"
echo "|---|---:|---:|---:|---:|---:|---:|---|"
while IFS=$'\t' read -r name args; do
	row=() same=equal
	for n in "$small" "$large"; do
		# shellcheck disable=SC2086 # the arguments are words
		now=$(spent now "$n" $args) before=$(spent before "$n" $args)
		row+=("$now" "$before")
		grep -v '"seconds"\|Seconds"' "$dir/now.out" >"$dir/a" || true
		grep -v '"seconds"\|Seconds"' "$dir/before.out" >"$dir/b" || true
		cmp -s "$dir/a" "$dir/b" || same=differs
	done
	exponent() { awk -v a="$1" -v b="$2" -v n="$small" -v m="$large" 'BEGIN { if (a + 0 > 0 && b + 0 > 0) printf "%.2f", log(b / a) / log(m / n); else print "–" }'; }
	echo "| $name | ${row[0]} | ${row[2]} | $(exponent "${row[0]}" "${row[2]}") | ${row[1]} | ${row[3]} | $(exponent "${row[1]}" "${row[3]}") | $same |"
done < <(commands)
echo
echo "Commit $(git describe --always --dirty), before: $base, ${PODS:-30} pods a node."
