package linear

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// TestGuide: a search of the index leads to the machine that the scores of all of them give, for
// random weights, with departures, moves of the offer and resets.
func TestGuide(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	shortlisted, scored, pressed := 0, 0, false
	for _, fleet := range []string{"one", "open", "fixed"} {
		for round := range 3 {
			t.Run(fmt.Sprint(fleet, " ", round), func(t *testing.T) {
				tr, err := generate.Generate("kubernetes", uint64(round), map[string]string{"nodes": "300", "days": "1", "fleet": fleet})
				require.NoError(t, err)
				p := everyFeature(t, binpack.K0, true)
				for f := range p.weights {
					p.weights[f] = rng.NormFloat64()
					if rng.IntN(4) == 0 {
						p.weights[f] = 0
					}
				}
				p.weights[fPartners] = 0
				p.weights[fSlot] = min(0, float64(1-round)) // with pressure at times in the last round
				p.params = maps.Clone(p.params)
				p.params["alpha"] = .2
				p.emptyLast = round%3 == 1
				a, b, c := guided(t, tr, p)
				shortlisted, scored, pressed = shortlisted+a, scored+b, pressed || c
			})
		}
	}
	require.True(t, pressed)
	require.Greater(t, scored, 100000)
	require.Less(t, float64(shortlisted), .1*float64(scored), "the search saves nothing")
}

func guided(t *testing.T, tr *trace.Trace, p *Policy) (shortlisted, scored int, pressed bool) {
	t.Helper()
	s := binpack.NewState(tr.Instance)
	scorer, plain := NewScorer(p, s), onlyScores{NewScorer(p, s)}
	for range 2 {
		where := map[int32][]int32{} // request → machines
		for i, e := range tr.Events[:min(len(tr.Events), 4000)] {
			q := tr.Requests[e.Request]
			if e.Kind == trace.Delete {
				if list := where[e.Request]; len(list) > 0 {
					s.Remove(q.App, list[len(list)-1], nil)
					where[e.Request] = list[:len(list)-1]
				}
				continue
			}
			s.Arrive(q.App, q.Count)
			for range q.Count {
				item := binpack.Item{App: q.App}
				got, err := s.Choose(scorer, item)
				if i%7 == 0 {
					want, failure := s.Choose(plain, item)
					require.Equal(t, failure, err)
					require.Equal(t, want, got, "event %d", i)
					require.True(t, scorer.guided())
					pressed = pressed || len(scorer.strong) > 0
					if some, known := scorer.searched(q.App, nil); known {
						all := s.Feasible(q.App, nil)
						require.Subset(t, all, some)
						shortlisted, scored = shortlisted+len(some), scored+len(all)
					}
				}
				if err == nil {
					s.Place(item, got, nil)
					where[e.Request] = append(where[e.Request], got)
				}
			}
		}
		s.Reset()
	}
	return shortlisted, scored, pressed
}
