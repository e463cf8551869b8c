//go:build linux

package mpa

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An object is a workload of ten pods under a controller that has seen a day of it.
type object struct {
	control *Controller
	seen    Observation
	rng     *rand.Rand
}

func newObject(tb testing.TB, agent string, seed uint64) *object {
	tb.Helper()
	target := Target{
		SLO: SLO{Percentile: 99, Latency: .25}, Replicas: Range{Min: 1, Max: 40},
		Containers: []ContainerSpec{{
			Name: "web", CPU: true, Memory: true, Min: Resources{250, 128 << 20}, Max: Resources{8000, 8 << 30},
		}},
	}
	a, err := NewAgent(agent, target)
	require.NoError(tb, err)
	c, err := NewController(target, a, DefaultGuards())
	require.NoError(tb, err)
	o := &object{control: c, rng: rand.New(rand.NewPCG(seed, 0))}
	begin := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	o.seen = Observation{Time: begin, Replicas: 10}
	for i := range 10 {
		o.seen.Pods = append(o.seen.Pods, Pod{
			Name: fmt.Sprintf("web-%05d", i), Phase: Running, Started: begin.Add(-time.Hour), Ready: true, ReadySince: begin.Add(-time.Hour),
			Containers: []Container{{Name: "web", Request: Resources{1000, 1 << 30}, Actual: Resources{1000, 1 << 30}}},
		})
	}
	for range 288 {
		o.look(5 * time.Minute)
		o.control.Decide(&o.seen)
	}
	return o
}

// look measures the pods anew, after a while.
func (o *object) look(after time.Duration) {
	o.seen.Time = o.seen.Time.Add(after)
	for i := range o.seen.Pods {
		o.seen.Pods[i].Containers[0].Usage = Usage{
			Resources: Resources{500 + o.rng.Int64N(600), 400<<20 + o.rng.Int64N(200<<20)},
			Time:      o.seen.Time.Add(-10 * time.Second), Window: 30 * time.Second,
		}
	}
	when := o.seen.Time.Add(-10 * time.Second)
	o.seen.Rate, o.seen.Latency = Metric{200 + 50*o.rng.Float64(), when}, Metric{.2 * o.rng.Float64(), when}
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
	for _, agent := range []string{"hpa+vpa", "autopilot", "predictive"} {
		objects := make([]*object, 1000)
		for i := range objects {
			objects[i] = newObject(t, agent, uint64(i))
		}
		rounds := make([]float64, 5)
		for r := range rounds {
			for _, o := range objects {
				o.look(time.Minute)
			}
			begin := cpuSeconds(t)
			for _, o := range objects {
				if d := o.control.Decide(&o.seen); d.Recommended.Source == "" {
					t.Fatalf("%s was not asked: %s", agent, d.Reason)
				}
			}
			rounds[r] = cpuSeconds(t) - begin
		}
		s := median(rounds)
		fmt.Fprintf(out, "| %s | %.3f | %.0f |\n", agent, s, 1000/s)
		require.Less(t, s, 1.0, "a round of 1,000 decisions")
	}
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

func cpuSeconds(tb testing.TB) float64 {
	tb.Helper()
	var ts unix.Timespec
	require.NoError(tb, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts))
	return float64(ts.Nano()) / 1e9
}
