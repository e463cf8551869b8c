#!/usr/bin/env bash
# Builds the programs of Knative Serving pinned in go.mod, once, and prints the folder that
# holds them, with the modules' own files: definitions and ConfigMaps in config, what belongs to the
# webhook in webhooks.
#
# The folder's name is made of everything the programs depend on, as in lab/controlplane;
# folders of former pins may be deleted at any time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

programs=(queue controller autoscaler activator webhook)
flags=(-trimpath -buildvcs=false -ldflags '-s -w')
export CGO_ENABLED=0

key=$({ cat go.sum build.sh && go version && echo "${flags[@]}"; } | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sigma-tools
folder=$cache/knative-$key

if [[ ! -d $folder ]]; then
	mkdir -p "$cache"
	exec {lock}>"$cache/knative.lock"
	if command -v flock >/dev/null; then flock "$lock"; fi
fi
if [[ ! -d $folder ]]; then
	building=$(mktemp -d "$cache/building-XXXXXX")
	trap 'rm -rf "$building"' EXIT
	where() { go list -f '{{.Dir}}' "$1"; } # it fetches the module if need be

	# Three programs listen on fixed ports, and the activator looks for the autoscaler by a name of the cluster's. Here all
	# run on one machine, maybe twice at a time: what is called gets its port by the environment, the rest any free port.
	cp go.mod go.sum "$building"
	replace() { # module, file, what to replace, by what
		local copy=$building/src/$1
		if [[ ! -d $copy ]]; then
			mkdir -p "$(dirname "$copy")"
			cp -r "$(go list -m -f '{{.Dir}}' "$1")" "$copy"
			chmod -R u+w "$copy"
			go mod edit -replace "$1=$copy" "$building/go.mod"
		fi
		if [[ $(grep -cF -- "$3" "$copy/$2") != 1 ]]; then
			echo "knative: $2 of $1 does not have \"$3\" once" >&2
			exit 1
		fi
		sed -i "s/$3/$4/" "$copy/$2"
	}
	go mod download knative.dev/pkg knative.dev/serving
	replace knative.dev/pkg injection/health_check.go 'HealthCheckDefaultPort = 8080' 'HealthCheckDefaultPort = 0'
	replace knative.dev/serving cmd/autoscaler/main.go '"log"' '"log"; "os"'
	replace knative.dev/serving cmd/autoscaler/main.go 'statserver.New(statsServerAddr,' 'statserver.New(":"+os.Getenv("STATS_PORT"),'
	replace knative.dev/serving cmd/activator/main.go 'pkgnet.GetServiceHostname("autoscaler", system.Namespace()) + autoscalerPort' '"localhost:" + os.Getenv("STATS_PORT")'
	replace knative.dev/serving cmd/activator/main.go 'strconv.Itoa(networking.BackendHTTPPort)' 'os.Getenv("ACTIVATOR_PORT")'
	replace knative.dev/serving cmd/activator/main.go 'strconv.Itoa(networking.BackendHTTP2Port)' '"0"'

	for name in "${programs[@]}"; do
		echo "knative: building $name" >&2
		go build "${flags[@]}" -modfile "$building/go.mod" -o "$building/$name" "knative.dev/serving/cmd/$name"
	done

	core=$(where knative.dev/serving/config/core)
	mkdir "$building/config" "$building/webhooks"
	cp "$core/100-namespace.yaml" "$core"/300-resources/*.yaml "$core"/configmaps/*.yaml \
		"$(where knative.dev/networking/config)"/*.yaml "$(where knative.dev/caching/config)"/*.yaml "$building/config"
	cp "$core"/webhooks/*.yaml "$building/webhooks"
	rm -r "$building"/{src,go.mod,go.sum}
	chmod 644 "$building"/{config,webhooks}/*
	chmod 755 "$building"
	mv "$building" "$folder" # atomic: nobody sees half of it
	trap - EXIT
fi
echo "$folder"
