package sim

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// perSecond is how many flows a CPU-second of this thread takes, the best of several runs.
func perSecond(t *testing.T, flows, runs int, run func()) float64 {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best := 0.
	for range runs {
		before := cputime.Thread()
		run()
		best = max(best, float64(flows)/(cputime.Thread()-before))
	}
	return best
}

// TestSpeed prints flows per CPU-second beside plainLink. It runs where SIGMA_BENCH names a file for its table.
func TestSpeed(t *testing.T) {
	if os.Getenv("SIGMA_BENCH") == "" {
		t.Skip("SIGMA_BENCH is not set")
	}
	var b strings.Builder
	b.WriteString("| flows per CPU-second | load | fair | 4 bands | las | srpt | plainLink, 4 bands |\n|---|---|---|---|---|---|---|\n")
	thresholds := flow.Thresholds{100_000, 1_800_000, 9_900_000}
	sets := []*flow.Sizes{heavy(t)}
	if os.Getenv("SIGMA_DATA") != "" {
		for _, name := range []string{"websearch_dctcp", "datamining_vl2", "fb_hadoop_hpcc", "alibaba_storage_2019"} {
			sets = append(sets, public(t, name))
		}
	}
	for _, s := range sets {
		for _, load := range []float64{.6, .8, .95} {
			flows := (&Traffic{Sizes: s, Load: load, Rate: 10 * gigabit}).Generate(1_000_000, 1)
			fct := make([]float64, len(flows))
			l := NewLink(10 * gigabit)
			fmt.Fprintf(&b, "| %s | %v |", s.Name, load)
			for _, run := range []func(){
				func() { l.Bands(flows, nil, fct) },
				func() { l.Bands(flows, thresholds, fct) },
				func() { l.LAS(flows, fct) },
				func() { l.SRPT(flows, fct) },
			} {
				fmt.Fprintf(&b, " %.1f M |", perSecond(t, len(flows), 3, run)/1e6)
			}
			plain := perSecond(t, 100_000, 1, func() { plainLink(flows[:100_000], 10*gigabit, thresholds, fct) })
			fmt.Fprintf(&b, " %.1f M |\n", plain/1e6)
		}
	}
	b.WriteString("\n| flows per CPU-second, load .8, 4 bands | hosts | decomposed | exact |\n|---|---|---|---|\n")
	for _, s := range sets[:min(2, len(sets))] {
		for _, hosts := range []int{32, 144} {
			f := Fabric{hosts, 10 * gigabit}
			flows := (&Traffic{Sizes: s, Load: .8, Rate: f.Rate, Hosts: hosts}).Generate(1_000_000, 1)
			fct := make([]float64, len(flows))
			parts := 0.
			for range 3 { // its ports run on other threads
				before := cputime.Process()
				f.Decomposed(flows, byBands(thresholds), 1, fct)
				parts = max(parts, float64(len(flows))/(cputime.Process()-before))
			}
			const part = 200_000
			exact := perSecond(t, part, 1, func() { f.Exact(flows[:part], thresholds, fct) })
			fmt.Fprintf(&b, "| %s | %d | %.1f M | %.0f k |\n", s.Name, hosts, parts/1e6, exact/1e3)
		}
	}
	appendTable(t, b.String())
}
