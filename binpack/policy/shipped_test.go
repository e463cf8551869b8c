package policy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// TestShippedTable: each situation has its file.
func TestShippedTable(t *testing.T) {
	p, err := policy.Shipped().Policy()
	require.NoError(t, err)
	require.Equal(t, binpack.K1, p.Knowledge())
	for _, c := range []struct {
		name     string
		fleet    binpack.Fleet
		expected []float64
		limit    int32
		dims     int
		device   bool
		leave    int
		again    bool
		single   bool // every request asks for one item
		want     string
	}{
		{"open", binpack.Open, []float64{5, 5}, 1, 2, false, 0, false, false, "general-k1.yaml"},
		{"open, no forecast", binpack.Open, nil, 1, 2, false, 0, false, false, "large-k1.yaml, no forecast"},
		{"a forecast of nothing", binpack.Open, []float64{-1, -1}, 1, 2, false, 0, false, false, "large-k1.yaml, no forecast"},
		{"a forecast of zeros", binpack.Open, []float64{0, 0}, 1, 2, false, 0, false, false, "general-k1.yaml"},
		{"no limits", binpack.Open, []float64{5, 5}, 0, 2, false, 0, false, false, "large-k1.yaml, no forecast"},
		{"no limits, many leave", binpack.Open, []float64{5, 5}, 0, 2, false, 32, false, false, "kubernetes-k0.yaml"},
		{"machines that differ", binpack.Open, []float64{5, 5}, 0, 2, false, 0, false, false, "kubernetes-k0.yaml"},
		{"machines that differ by little", binpack.Open, []float64{5, 5}, 0, 2, false, 0, false, false, "large-k1.yaml, no forecast"},
		{"machines that differ, limits", binpack.Open, []float64{5, 5}, 1, 2, false, 0, false, false, "general-k1.yaml"},
		{"no limits, one dimension", binpack.Open, nil, 0, 1, false, 0, false, false, "large-k1.yaml, no forecast"},
		{"an app comes again", binpack.Open, []float64{5, 5}, 1, 2, false, 0, true, false, "large-k1.yaml"},
		{"an app comes again, no forecast", binpack.Open, nil, 1, 2, false, 0, true, false, "large-k1.yaml, no forecast"},
		{"a few leave", binpack.Open, []float64{5, 5}, 1, 2, false, 31, false, false, "large-k1.yaml"},
		{"many leave", binpack.Open, []float64{5, 5}, 1, 2, false, 32, false, false, "kubernetes-k0.yaml"},
		{"fixed and roomy, many leave", binpack.Fixed, []float64{23, 6}, 1, 2, false, 32, false, false, "kubernetes-k0.yaml"},
		{"fixed and loose, many leave", binpack.Fixed, []float64{30, 6}, 1, 2, false, 32, false, false, "kubernetes-k0.yaml"},
		{"fixed and no longer loose, many leave", binpack.Fixed, []float64{32, 6}, 1, 2, false, 32, false, false, "kubernetes-k0-fixed.yaml"},
		{"fixed, many leave", binpack.Fixed, []float64{40, 5}, 1, 2, false, 32, false, false, "kubernetes-k0-fixed.yaml"},
		{"fixed, no forecast", binpack.Fixed, nil, 1, 2, false, 0, false, false, "kubernetes-k0-fixed.yaml"},
		{"fixed and loose", binpack.Fixed, []float64{5, 5}, 1, 2, false, 0, false, false, "kubernetes-k0.yaml"},
		{"fixed and tight", binpack.Fixed, []float64{40, 5}, 1, 2, false, 0, false, false, "kubernetes-k0-fixed.yaml"},
		{"no limits, several dimensions", binpack.Open, nil, 0, 3, false, 0, false, false, "large-k1.yaml, no forecast"},
		{"several dimensions", binpack.Open, nil, 1, 15, false, 0, false, false, "large-k1.yaml, no forecast"},
		{"one at a time", binpack.Open, []float64{5, 5}, 1, 2, false, 0, true, true, "kubernetes-k0.yaml"},
		{"one at a time, roomy", binpack.Fixed, []float64{23, 6}, 1, 2, false, 0, true, true, "kubernetes-k0.yaml"},
		{"one at a time, loose", binpack.Fixed, []float64{25, 6}, 1, 2, false, 0, true, true, "kubernetes-k0-fixed.yaml"},
		{"one at a time, roomy, no forecast", binpack.Fixed, nil, 1, 2, false, 0, true, true, "kubernetes-k0-fixed.yaml"},
		{"one at a time, no limits", binpack.Open, []float64{5, 5}, 0, 2, false, 0, true, true, "large-k1.yaml, no forecast"},
		{"devices", binpack.Fixed, []float64{5, 5}, 1, 2, true, 0, false, false, "general-k1-devices.yaml"},
		{"devices, no forecast", binpack.Open, nil, 1, 2, true, 0, false, false, "general-k1-devices.yaml, no forecast"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inst := &binpack.Instance{
				Fleet: c.fleet, Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "gpu", One: 1, Device: c.device}},
				Types:    []string{""},
				Machines: []binpack.MachineLine{{Name: "m", Count: 10, Cost: 1, Capacity: []int64{9, 9}}},
				Groups:   []binpack.Group{{Name: "a", Limit: c.limit}, {Name: "b"}},
				Apps: []binpack.App{
					{Name: "a", Demand: []int64{2, 1}, Expected: -1, Lifetime: -1},
					{Name: "b", Group: 1, Demand: []int64{1, 1}, Expected: -1, Lifetime: -1},
				},
			}
			if c.name == "machines that differ" || c.name == "machines that differ, limits" {
				inst.Machines = append(inst.Machines, binpack.MachineLine{Name: "n", Count: 10, Cost: 1.1, Capacity: []int64{9, 9}})
			}
			if c.name == "machines that differ by little" {
				inst.Machines = append(inst.Machines, binpack.MachineLine{Name: "n", Count: 10, Cost: 1.04, Capacity: []int64{9, 9}})
			}
			if c.dims == 1 {
				inst.Dimensions, inst.Machines[0].Capacity = inst.Dimensions[:1], []int64{9}
				inst.Apps[0].Demand, inst.Apps[1].Demand = []int64{2}, []int64{1}
			}
			for d := 2; d < c.dims; d++ {
				inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: fmt.Sprint("d", d), One: 1})
				inst.Machines[0].Capacity = append(inst.Machines[0].Capacity, 9)
				inst.Apps[0].Demand, inst.Apps[1].Demand = append(inst.Apps[0].Demand, 1), append(inst.Apps[1].Demand, 1)
			}
			s := binpack.NewState(inst)
			s.Known.Expected = c.expected
			scorer := p.Scorer(s)
			count := int32(3)
			if c.single {
				count = 1
			}
			if s.Arrive(1, count); c.again {
				s.Arrive(1, 1)
			}
			for range c.leave {
				s.Arrive(0, 1)
				s.Place(binpack.Item{}, 0, nil)
				s.Remove(0, 0, nil)
			}
			choice, ok := binpack.ChoiceOf(scorer)
			require.True(t, ok)
			require.Equal(t, c.want, choice.Name)
			fresh, _ := binpack.ChoiceOf(p.Scorer(s))
			require.Equal(t, choice, fresh)
			require.Equal(t, choice.Digest, policy.ShippedChoice(choice).Digest())
		})
	}
}

// TestShippedAtItsPeak: once a tenth of the items have left, the highest load so far says whether a fixed fleet is loose.
func TestShippedAtItsPeak(t *testing.T) {
	p, err := policy.Shipped().Policy()
	require.NoError(t, err)
	for _, c := range []struct {
		most int
		want string
	}{{74, "kubernetes-k0.yaml"}, {76, "kubernetes-k0-fixed.yaml"}} {
		s := binpack.NewState(&binpack.Instance{
			Fleet: binpack.Fixed, Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{""},
			Machines: []binpack.MachineLine{{Name: "m", Count: 10, Cost: 1, Capacity: []int64{10}}},
			Groups:   []binpack.Group{{Name: "a"}},
			Apps:     []binpack.App{{Name: "a", Demand: []int64{1}, Expected: -1, Lifetime: -1}},
		})
		s.Known.Expected = []float64{34}
		followed := p.Scorer(s)
		check := func(want string) {
			choice, _ := binpack.ChoiceOf(followed)
			require.Equal(t, want, choice.Name)
			fresh, _ := binpack.ChoiceOf(p.Scorer(s))
			require.Equal(t, choice, fresh)
		}
		for i := range c.most {
			s.Arrive(0, 1)
			s.Place(binpack.Item{}, int32(i/10), nil)
			if i < 58 {
				check("kubernetes-k0.yaml")
			} else if i > 60 {
				check("kubernetes-k0-fixed.yaml")
			}
		}
		for i := range 40 {
			s.Remove(0, int32(i/10), nil)
			if i < 6 {
				check("kubernetes-k0-fixed.yaml")
			}
		}
		check(c.want)
		require.Equal(t, int64(c.most), s.Most())
		s.Known.Expected = nil
		check("kubernetes-k0-fixed.yaml")
		s.Known.Expected = []float64{34}
		s.Restore(binpack.History{Seen: []int64{74}, Requests: []int64{74}, SumSquares: []int64{74}, Placements: 74, Departures: 40, Most: 74})
		check("kubernetes-k0.yaml")
	}
}

// TestShippedIsPure: a scorer that followed the state chooses the file and the machine that one
// made now does, whatever the number of apps and rules that came meanwhile, and it is the
// machine that the file itself chooses.
func TestShippedIsPure(t *testing.T) {
	p, err := policy.Shipped().Policy()
	require.NoError(t, err)
	for _, fleet := range []binpack.Fleet{binpack.Open, binpack.Fixed} {
		rng := rand.New(rand.NewPCG(1, uint64(fleet)))
		inst := &binpack.Instance{
			Fleet: fleet, Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "memory", One: 1}}, Types: []string{""},
			Machines: []binpack.MachineLine{{Name: "m", Count: 60, Cost: 1, Capacity: []int64{96, 100}}},
		}
		s := binpack.NewState(inst)
		s.Known.Expected = []float64{}
		grown := p.Scorer(s)
		app := func() {
			a := int32(len(inst.Apps))
			s.AddApp(binpack.App{
				Group: a, Demand: []int64{4 + rng.Int64N(12), 4 + rng.Int64N(12)}, Expected: -1, Lifetime: -1,
			}, binpack.Group{Limit: min(1, a/6)}, 0)
		}
		app()
		type stay struct{ app, machine int32 }
		var live []stay
		chosen := map[string]bool{}
		for step := range 1500 {
			switch {
			case step%25 == 24 && len(inst.Apps) < 30:
				app()
			case step == 400: // a forecast comes
				s.Known.Expected = make([]float64, len(inst.Apps))
				for a := range s.Known.Expected {
					s.Known.Expected[a] = float64(rng.IntN(12))
				}
				grown = p.Scorer(s)
			case step == 300:
				s.AddRules([]binpack.Rule{{A: 0, B: 1}})
			}
			leave := .05
			if step > 700 {
				leave = .45
			}
			if len(live) > 0 && rng.Float64() < leave {
				i := rng.IntN(len(live))
				s.Remove(live[i].app, live[i].machine, nil)
				live[i] = live[len(live)-1]
				live = live[:len(live)-1]
				continue
			}
			a := int32(rng.IntN(len(inst.Apps)))
			count := int32(1)
			if step > 420 {
				count = 2 // from here on there are batches
			}
			s.Arrive(a, count)
			choice, _ := binpack.ChoiceOf(grown)
			now, _ := binpack.ChoiceOf(p.Scorer(s))
			require.Equal(t, now, choice, "step %d", step)
			chosen[choice.Name] = true
			item := binpack.Item{App: a, Serial: uint64(step)}
			m, err := s.Choose(grown, item)
			file, fault := policy.ShippedChoice(choice).Policy()
			require.NoError(t, fault)
			want, wantErr := s.Choose(file.Scorer(s), item)
			require.Equal(t, wantErr, err)
			require.Equal(t, want, m, "step %d", step)
			if err != nil {
				continue
			}
			s.Place(item, m, nil)
			live = append(live, stay{a, m})
		}
		require.Greater(t, len(chosen), 1, "too few files had their turn: %v", chosen)
	}
}

// TestShippedDigest: the digest covers the files and the table, and each file can be used where
// the table has it.
func TestShippedDigest(t *testing.T) {
	digest := policy.Shipped().Digest()
	plain := policy.ModelOf(policy.ShippedModel).Contents
	text := plain()
	for _, f := range policy.ShippedFiles() {
		require.Contains(t, text, f.Name+" "+f.Object.Digest()+"\n")
	}
	t.Cleanup(func() { policy.ModelOf(policy.ShippedModel).Contents = plain })
	policy.ModelOf(policy.ShippedModel).Contents = func() string { return text + "." }
	require.NotEqual(t, digest, policy.Shipped().Digest())
	o, err := policy.Parse("shipped", policy.Shipped().Bytes())
	require.NoError(t, err)
	require.Equal(t, policy.Shipped().Digest(), o.Digest())
	for field, text := range map[string]string{
		"spec.features[0]": "model: shipped, knowledge: K1, features: [util], weights: [1]",
		"spec.parameters":  "model: shipped, knowledge: K1, features: [], weights: [], parameters: {z: 1}",
		"spec.knowledge":   "model: shipped, knowledge: K2, features: [], weights: []",
	} {
		_, err := policy.Parse("p", []byte("{apiVersion: sigma-scheduler.io/v1alpha1, kind: PlacementPolicy, metadata: {name: a}, spec: {featureVersion: 1, "+text+"}}"))
		require.ErrorContains(t, err, field)
	}
}
