package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// Pods of tenant a ask for resources of more names than there are dimensions, and no machine has one. Those that machines have
// stay dimensions, so that the GPUs of tenant b count.
func TestTwoTenantsShareDimensions(t *testing.T) {
	l := ledger.New()
	const gpu = "nvidia.com/gpu"
	apply(t, l,
		&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "open"}},
		&ledger.Event{Kind: ledger.KindNode, Node: "n", Machine: &ledger.Machine{Capacity: map[string]int64{"cpu": 8000, "memory": 1 << 30, "pods": 110, gpu: 4}, Cost: 1}},
		&ledger.Event{Kind: ledger.KindApp, App: "b", Spec: &ledger.App{Group: "b", Demand: map[string]int64{"cpu": 1000, gpu: 1}}},
	)
	for i := range 2 * binpack.MaxDimensions {
		name := fmt.Sprintf("a-%03d", i)
		apply(t, l, &ledger.Event{Kind: ledger.KindApp, App: name, Spec: &ledger.App{Group: name, Demand: map[string]int64{"cpu": 1, "a.example.org/" + name: 1}}})
	}
	dims := l.Columns().Instance().Dimensions
	require.Len(t, dims, binpack.MaxDimensions)
	require.True(t, slices.ContainsFunc(dims, func(d binpack.Dimension) bool { return d.Name == gpu }))
}
