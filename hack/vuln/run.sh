#!/usr/bin/env bash
# Looks for known vulnerabilities in code that Sigma's programs, tests and tools reach:
# govulncheck as pinned in go.mod, in source mode, on every module of the tree that has Go
# code, or on those given.
#
#   hack/vuln/run.sh            all modules (minutes of CPU, some GB)
#   hack/vuln/run.sh . hack/bump
#
# The database is https://vuln.go.dev, or VULNDB: the URL of a mirror, or file:///FOLDER of
# an unpacked https://vuln.go.dev/vulndb.zip. Exit status 3: there are vulnerabilities. 1:
# a module was not checked, for want of the database too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
database=${VULNDB:-https://vuln.go.dev}

if (($# == 0)); then
	set -- .
	while read -r module; do
		if [[ -n $(git ls-files "$module/*.go") ]]; then set -- "$@" "$module"; fi
	done < <(git ls-files 'hack/*go.mod' | xargs -n1 dirname)
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(cd hack/vuln && go build -trimpath -o "$scratch/govulncheck" golang.org/x/vuln/cmd/govulncheck)

found=''
for module in "$@"; do
	printf '\n=== %s\n' "$module"
	status=0
	(cd "$root/$module" && "$scratch/govulncheck" -db "$database" -test ./...) || status=$?
	case $status in
	0) ;;
	3) found+=" $module" ;;
	*)
		echo "vuln: NOT CHECKED: $module: govulncheck ended with status $status; it needs the database $database (VULNDB names another)" >&2
		exit 1
		;;
	esac
done
if [[ -n $found ]]; then
	echo "vuln: vulnerabilities in$found" >&2
	exit 3
fi
