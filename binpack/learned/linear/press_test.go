package linear

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// TestPress: press is slot while limits need a third of the machines in use, and nothing else; the limit bound that
// it follows is the one of the living items.
func TestPress(t *testing.T) {
	tr, err := generate.Generate("kubernetes", 3, map[string]string{"nodes": "40", "days": "1", "limited": ".3"})
	require.NoError(t, err)
	policy := func(features ...string) *Policy {
		p, err := New(learned.Spec{Features: features, Weights: []float64{.3, -.9}, Parameters: map[string]float64{"alpha": .3, "eta": 3}})
		require.NoError(t, err)
		return p
	}
	s := binpack.NewState(tr.Instance)
	press := policy("util", "press").Scorer(s)
	slot, without := policy("util", "slot").Scorer(s), policy("util", "full").Scorer(s).(*Scorer)
	without.weights[fFull] = 0
	counts := map[bool]int{}
	where := map[int32]int32{}
	for i, e := range tr.Events[:min(len(tr.Events), 6000)] {
		q := tr.Requests[e.Request]
		if e.Kind == trace.Delete {
			if m, ok := where[e.Request]; ok {
				s.Remove(q.App, m, nil)
			}
			continue
		}
		s.Arrive(q.App, 1)
		item := binpack.Item{App: q.App}
		most := 0.0
		for g, group := range tr.Instance.Groups {
			n := 0.0
			for _, a := range s.GroupApps(int32(g)) {
				n += float64(s.Alive()[a])
			}
			if group.Limit > 0 {
				most = max(most, n/float64(group.Limit))
			}
		}
		tight := 3*most >= float64(s.Active()+1)
		twin := binpack.Scorer(without)
		if tight {
			twin = slot
		}
		want, wantErr := s.Choose(twin, item)
		got, err := s.Choose(press, item)
		require.Equal(t, wantErr, err)
		require.Equal(t, want, got, "event %d", i)
		counts[tight]++
		if err == nil {
			for _, term := range press.(binpack.Explainer).Explain(item, got) {
				require.NotEqual(t, "slot", term.Name)
				if term.Name == "press" {
					require.True(t, tight)
				}
			}
			s.Place(item, got, nil)
			where[e.Request] = got
		}
	}
	require.Greater(t, counts[true], 100)
	require.Greater(t, counts[false], 100)

	_, err = New(learned.Spec{Features: []string{"slot", "press"}, Weights: []float64{-1, -1}, Parameters: map[string]float64{"alpha": 1}})
	require.EqualError(t, err, "spec.features: press takes the place of slot: list one of them")
}
