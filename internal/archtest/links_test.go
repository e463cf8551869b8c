package archtest

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	reports    = []string{module + "/cerebro/report", module + "/internal/compare"}
	training   = []string{module + "/internal/train/...", module + "/internal/tune", module + "/internal/scaling"}
	networks   = []string{module + "/internal/learn/nn", module + "/internal/learn/rl"}
	kubernetes = []string{"k8s.io/kubernetes/..."}
)

// everywhere are packages that no program links.
var everywhere = []string{"gonum.org/v1/plot/...", "github.com/prometheus/prometheus/...", module + "/lab/..."}

// unlinked are the packages that a program does not link, neither by itself nor through
// another module.
var unlinked = map[string][]string{
	"sigma":          kubernetes,
	"sigma-extender": slices.Concat(reports, training, networks, kubernetes),
	"sigma-flow":     slices.Concat(reports, training, networks, kubernetes),
	"sigma-gate":     slices.Concat(reports, training, networks, []string{"k8s.io/..."}),
	"sigma-mpa":      slices.Concat(reports, training, networks, []string{"html/template"}),
	"sigma-pilot":    slices.Concat(networks, kubernetes),
	// With golang.org/x/net/trace the linker keeps every exported method (hack/conntrack).
	"sigma-scheduler": slices.Concat(reports, training, networks, []string{"golang.org/x/net/trace"}),
}

// TestLinks compares the packages that each program links with unlinked.
func TestLinks(t *testing.T) {
	root := filepath.Join("..", "..")
	// The test cache records the files that this test opens, not those that go list reads.
	_, err := parse(root)
	require.NoError(t, err)
	for _, name := range []string{"go.mod", "go.sum"} {
		_, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", "grpcnotrace", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./cmd/...")
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	require.NoError(t, err)
	imports := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		imports[fields[0]] = fields[1:]
	}
	programs := map[string]bool{}
	for pkg := range imports {
		name := path.Base(pkg)
		if path.Dir(pkg) != module+"/cmd" {
			continue
		}
		programs[name] = true
		for _, found := range linked(imports, pkg, append(unlinked[name], everywhere...)) {
			t.Errorf("%s links %s", name, found)
		}
	}
	for name := range unlinked {
		if !programs[name] {
			t.Errorf("there is no program %s", name)
		}
	}
}

func TestPlantedLinks(t *testing.T) {
	imports := map[string][]string{
		"m/cmd/a":   {"m/x", "fmt"},
		"m/x":       {"foreign/y", "m/x/sub"},
		"m/x/sub":   {"m/x"},
		"m/cmd/b":   {"foreign/y/z"},
		"foreign/y": {"foreign/y/z"},
	}
	require.Equal(t, []string{"foreign/y by way of m/x", "foreign/y/z by way of m/x → foreign/y"}, linked(imports, "m/cmd/a", []string{"foreign/y/...", "m/lab"}))
	require.Equal(t, []string{"foreign/y/z"}, linked(imports, "m/cmd/b", []string{"foreign/y/..."}))
	require.Empty(t, linked(imports, "m/cmd/b", []string{"m/..."}))
}

// linked returns the forbidden packages that a package imports, each with a shortest chain
// of imports that leads to it.
func linked(imports map[string][]string, pkg string, forbidden []string) (found []string) {
	chains := map[string][]string{pkg: nil}
	for queue := []string{pkg}; len(queue) > 0; queue = queue[1:] {
		chain := chains[queue[0]]
		if queue[0] != pkg {
			chain = append(slices.Clone(chain), queue[0])
		}
		for _, next := range imports[queue[0]] {
			if _, seen := chains[next]; seen {
				continue
			}
			chains[next] = chain
			queue = append(queue, next)
			if !matchesAny(forbidden, next) {
				continue
			}
			if len(chain) > 0 {
				next += " by way of " + strings.Join(chain, " → ")
			}
			found = append(found, next)
		}
	}
	return found
}
