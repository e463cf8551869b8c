#!/usr/bin/env bash
# Looks for known vulnerabilities in code that Sigma's programs, tests and tools reach:
# govulncheck as pinned in go.mod, in source mode, on every module of the tree that has Go
# code, or on those given.
#
#   hack/vuln/run.sh            all modules (minutes of CPU, some GB)
#   hack/vuln/run.sh . hack/bump
#
# The database is https://vuln.go.dev, or VULNDB: the URL of a mirror, or https://vuln.go.dev/vulndb.zip
# as a file or unpacked, by its path or as file:///PATH. Exit status 3: there are vulnerabilities. 1:
# a module was not checked, for want of the database too.
set -euo pipefail
database=${VULNDB:-https://vuln.go.dev}
case $database in
*://*) ;;
*) database=file://$(realpath -- "$database") ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD

if (($# == 0)); then
	set -- .
	while read -r module; do
		if [[ -n $(git ls-files "$module/*.go") ]]; then set -- "$@" "$module"; fi
	done < <(git ls-files 'hack/*go.mod' 'lab/*go.mod' | xargs -n1 dirname)
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [[ $database == file://* && -f ${database#file://} ]]; then
	unzip -q "${database#file://}" -d "$scratch/db" || {
		echo "vuln: NOT CHECKED: $database is neither a folder nor a zip file" >&2
		exit 1
	}
	database=file://$scratch/db
fi
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
