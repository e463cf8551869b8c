package rule_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

// TestAnchors: the published figures of First Fit and Best Fit on FunSearch's
// two public sets, to the last bin.
func TestAnchors(t *testing.T) {
	for _, c := range []struct {
		set, policy string
		want        float64
	}{
		{"or3", "firstfit", 212.75},
		{"or3", "bestfit", 212.0},
		{"or3", "bestfit-cpu", 212.0},
		{"or3", "bestfit-l2", 212.0},
		{"weibull-5k", "firstfit", 2071.8},
		{"weibull-5k", "bestfit-l1", 2067.0},
		{"weibull-5k", "bestfit-cpu", 2067.0},
		{"weibull-5k", "bestfit-l2", 2067.0},
	} {
		t.Run(c.set+"/"+c.policy, func(t *testing.T) {
			pol, err := rule.ByName(c.policy, rule.Options{})
			require.NoError(t, err)
			bins, instances := 0, funsearch(t, c.set)
			for _, in := range instances {
				bins += pack(t, pol, in)
			}
			require.InDelta(t, c.want, float64(bins)/float64(len(instances)), 1e-9)
		})
	}
}

type oneDimensional struct {
	Capacity int64   `json:"capacity"`
	Items    []int64 `json:"items"`
}

func funsearch(t *testing.T, set string) []oneDimensional {
	t.Helper()
	folder := os.Getenv("SIGMA_DATA")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "shared", "data")
	}
	text, err := os.ReadFile(filepath.Join(folder, "funsearch-binpack", set+".json"))
	if os.IsNotExist(err) && os.Getenv("SIGMA_DATA") == "" {
		t.Skip("public data not here")
	}
	require.NoError(t, err)
	var file struct {
		Instances []oneDimensional `json:"instances"`
	}
	require.NoError(t, json.Unmarshal(text, &file))
	require.NotEmpty(t, file.Instances)
	return file.Instances
}

// pack returns the number of bins that a policy opens.
func pack(t *testing.T, pol binpack.Policy, in oneDimensional) int {
	t.Helper()
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "size", One: 1}},
		Types:      []string{""},
		Fleet:      binpack.Open,
		Machines:   []binpack.MachineLine{{Name: "bin", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{in.Capacity}}},
	}
	apps := map[int64]int32{}
	for _, size := range in.Items {
		if _, ok := apps[size]; !ok {
			apps[size] = int32(len(inst.Apps))
			inst.Groups = append(inst.Groups, binpack.Group{})
			inst.Apps = append(inst.Apps, binpack.App{Group: apps[size], Demand: []int64{size}, Expected: -1, Lifetime: -1})
		}
	}
	s := binpack.NewState(inst)
	scorer := pol.Scorer(s)
	for i, size := range in.Items {
		item := binpack.Item{App: apps[size], Serial: uint64(i)}
		m, err := s.Choose(scorer, item)
		require.NoError(t, err)
		s.Place(item, m, nil)
	}
	return s.Active()
}
