//go:build linux

package mpa_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/cputime"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/learned"
)

// An object is a workload of ten pods under a controller that has seen a day of it.
type object struct {
	control *mpa.Controller
	agent   mpa.Agent
	seen    mpa.Observation
	rng     *rand.Rand
}

func newObject(tb testing.TB, agent string, seed uint64) *object {
	tb.Helper()
	target := mpa.Target{
		SLO: mpa.SLO{Percentile: 99, Latency: .25}, Replicas: mpa.Range{Min: 1, Max: 40},
		Containers: []mpa.ContainerSpec{{
			Name: "web", CPU: true, Memory: true, Min: mpa.Resources{250, 128 << 20}, Max: mpa.Resources{8000, 8 << 30},
		}},
	}
	spec, weights := mpa.Spec{Name: agent}, agents.Weights{}
	if agent == "learned" {
		spec.Digest = weights.Add(learned.GeneralFile())
	}
	a, err := agents.Make(spec, target, weights)
	require.NoError(tb, err)
	c, err := mpa.NewController(target, a, mpa.DefaultGuards())
	require.NoError(tb, err)
	o := &object{control: c, agent: a, rng: rand.New(rand.NewPCG(seed, 0))}
	begin := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	o.seen = mpa.Observation{Time: begin, Replicas: 10}
	for i := range 10 {
		o.seen.Pods = append(o.seen.Pods, mpa.Pod{
			Name: fmt.Sprintf("web-%05d", i), Phase: mpa.Running, Started: begin.Add(-time.Hour), Ready: true, ReadySince: begin.Add(-time.Hour),
			Containers: []mpa.Container{{Name: "web", Request: mpa.Resources{1000, 1 << 30}, Actual: mpa.Resources{1000, 1 << 30}}},
		})
	}
	for range 288 {
		o.look(5 * time.Minute)
		o.control.Decide(&o.seen)
	}
	return o
}

// look measures the pods again, after some time.
func (o *object) look(after time.Duration) {
	o.seen.Time = o.seen.Time.Add(after)
	for i := range o.seen.Pods {
		o.seen.Pods[i].Containers[0].Usage = mpa.Usage{
			Resources: mpa.Resources{500 + o.rng.Int64N(600), 400<<20 + o.rng.Int64N(200<<20)},
			Time:      o.seen.Time.Add(-10 * time.Second), Window: 30 * time.Second,
		}
	}
	when := o.seen.Time.Add(-10 * time.Second)
	o.seen.Rate, o.seen.Latency = mpa.Metric{200 + 50*o.rng.Float64(), when}, mpa.Metric{.2 * o.rng.Float64(), when}
	o.seen.Throughput = o.seen.Rate
}

// TestSpeed writes what 1,000 objects cost; see hack/bench.sh.
func TestSpeed(t *testing.T) {
	path := os.Getenv("SIGMA_BENCH")
	if path == "" {
		t.Skip("SIGMA_BENCH, the file to write the table to, is not set; see `make mpa-bench`")
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, out.Close()) }()
	fmt.Fprintf(out, "\n| 1,000 objects of 10 pods, a day of history | CPU-seconds a round, median of 5 | decisions/CPU-s |\n|---|---:|---:|\n")
	for _, agent := range []string{"hpa+vpa", "autopilot", "predictive", "learned"} {
		objects := make([]*object, 1000)
		for i := range objects {
			objects[i] = newObject(t, agent, uint64(i))
		}
		rounds := make([]float64, 5)
		for r := range rounds {
			for _, o := range objects {
				o.look(time.Minute)
			}
			begin := cputime.Process()
			for _, o := range objects {
				if d := o.control.Decide(&o.seen); d.Recommended.Source == "" {
					t.Fatalf("%s was not asked: %s", agent, d.Reason)
				}
			}
			rounds[r] = cputime.Process() - begin
		}
		s := median(rounds)
		fmt.Fprintf(out, "| %s | %.3f | %.0f |\n", agent, s, 1000/s)
		require.Less(t, s, 1.0, "a round of 1,000 decisions")
	}
	o := newObject(t, "learned", 1)
	rounds := make([]float64, 5)
	const decisions = 20_000
	for r := range rounds {
		for range decisions {
			o.look(15 * time.Second)
			begin := cputime.Process()
			o.agent.Recommend(&o.seen)
			rounds[r] += (cputime.Process() - begin) / decisions
		}
	}
	s := 1e6 * median(rounds)
	fmt.Fprintf(out, "\n| 10 pods, every 15 s | µs a recommendation, median of 5 | must | aim |\n|---|---:|---:|---:|\n| learned, with hpa+vpa that it falls back to | %.1f | ≤ 20 | ≤ 5 |\n", s)
	require.Less(t, s, 20.0, "a recommendation")
}

func BenchmarkDecide(b *testing.B) {
	o := newObject(b, "hpa+vpa", 1)
	b.ReportAllocs()
	for b.Loop() {
		o.look(time.Minute)
		o.control.Decide(&o.seen)
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
