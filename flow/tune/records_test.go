package tune

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/sim"
	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// records are what docs/flow-records.md has: figures beside what they should be, and the tables they are from.
type records struct {
	rows    []string
	details strings.Builder
}

const (
	atLeast = 1.
	atMost  = -1.
)

// judge adds a figure. A better one is larger or smaller, by the sign.
func (r *records) judge(what string, sign, must, aim, figure float64) {
	verdict := "**missed**"
	switch {
	case sign*figure >= sign*aim:
		verdict = "aim"
	case sign*figure >= sign*must:
		verdict = "must"
	}
	r.rows = append(r.rows, fmt.Sprintf("| %s | %v | %v | %.3g | %s |\n", what, must, aim, figure, verdict))
}

// TestRecords measures the simulator's rows, and the paper's agents beside bands. It runs where SIGMA_BENCH
// names a file for its tables.
func TestRecords(t *testing.T) {
	if os.Getenv("SIGMA_BENCH") == "" {
		t.Skip("SIGMA_BENCH is not set")
	}
	var r records
	r.speed(t)
	r.theory(t)
	r.fabric(t)
	r.fewFlows(t)
	r.changes(t)
	r.hints(t)
	controls(t, &r.details)
	r.details.WriteString("\n")
	r.otherWays(t)
	text := "| what | must | aim | figure | held |\n|---|---|---|---|---|\n" + strings.Join(r.rows, "") + "\n" + r.details.String()
	t.Log("\n" + text)
	file, err := os.OpenFile(os.Getenv("SIGMA_BENCH"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = file.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

var (
	fixedBands = flow.Thresholds{100_000, 1_800_000, 9_900_000}
	byBands    = sim.Discipline(func(l *sim.Link, f []sim.Flow, fct []float64) { l.Bands(f, fixedBands, fct) })
)

// millions are how many flows a CPU-second takes, the best of three runs.
func millions(flows int, run func()) float64 {
	best := 0.
	for range 3 {
		before := cputime.Process()
		run()
		best = max(best, float64(flows)/(cputime.Process()-before)/1e6)
	}
	return best
}

func (r *records) speed(t *testing.T) {
	const n = 1_000_000
	runtime.GC()
	slowest := math.Inf(1)
	fct := make([]float64, n)
	for _, name := range publicSets {
		traffic := sim.Traffic{Sizes: public(t, name), Load: .8, Rate: rate}
		flows, link := traffic.Generate(n, 1), sim.NewLink(rate)
		slowest = min(slowest, millions(n, func() { link.Bands(flows, fixedBands, fct) }))
	}
	r.judge("link, 4 bands, load .8, million flows a CPU-s, slowest set", atLeast, 10, 25, slowest)
	f := sim.Fabric{Hosts: 144, Rate: rate}
	traffic := sim.Traffic{Sizes: public(t, "websearch_dctcp"), Load: .8, Rate: rate, Hosts: f.Hosts}
	flows := traffic.Generate(n, 1)
	r.judge("fabric decomposed, 144 hosts, .8, the same", atLeast, 3, 8, millions(n, func() { f.Decomposed(flows, byBands, 1, fct) }))
	const few = 100_000
	r.judge("fabric exact, the same, thousand flows a CPU-s", atLeast, 30, 100, 1000*millions(few, func() { f.Exact(flows[:few], fixedBands, fct) }))
}

func (r *records) theory(t *testing.T) {
	const load, n = .6, 3_000_000
	fair, first, srpt := 0., 0., 0.
	off := func(simulated, theory float64) float64 { return 100 * math.Abs(simulated/theory-1) }
	for _, name := range publicSets {
		s := public(t, name)
		traffic := sim.Traffic{Sizes: s, Load: load, Rate: rate}
		flows, fct, link := traffic.Generate(n, testSeed), make([]float64, n), sim.NewLink(rate)
		link.Bands(flows, nil, fct)
		fair = max(fair, off(sim.Summarise(flows, fct, 0, rate)[0].Slow, sim.FairSlowdown(load)))
		link.Bands(flows, fixedBands, fct)
		// The first band ends where short flows do.
		first = max(first, off(sim.Summarise(flows, fct, 0, rate)[1].Slow, sim.FirstBandSlowdown(s, load, sim.ShortBytes)))
		link.SRPT(flows, fct)
		srpt = max(srpt, off(sim.Summarise(flows, fct, 0, rate)[0].Mean, sim.SRPTMean(s, load, rate)))
	}
	r.judge("theory, load .6: slowdown of fair sharing, % off, worst set", atMost, 1, .5, fair)
	r.judge("theory: slowdown in the first band", atMost, 1, .5, first)
	r.judge("theory: mean of SRPT", atMost, 1, .5, srpt)
}

// fabric holds the ports taken apart against the exact fabric. With few flows a port some ports have more to send
// than they can, and the two differ.
func (r *records) fabric(t *testing.T) {
	b := &r.details
	b.WriteString("| mean time, decomposed against exact, 4 bands (busiest port's load) | hosts | load | 1,000 flows a host | 4,000 | 16,000 |\n|---|---|---|---|---|---|\n")
	lengths := []int{1000, 4000, 16_000}
	worst := make([]float64, len(lengths))
	row := func(name string, hosts int, load float64) {
		fmt.Fprintf(b, "| %s | %d | %v |", name, hosts, load)
		for i, n := range lengths {
			f := sim.Fabric{Hosts: hosts, Rate: rate}
			traffic := sim.Traffic{Sizes: public(t, name), Load: load, Rate: rate, Hosts: hosts}
			flows := traffic.Generate(n*hosts, testSeed)
			parts, whole := make([]float64, len(flows)), make([]float64, len(flows))
			f.Decomposed(flows, byBands, 1, parts)
			f.Exact(flows, fixedBands, whole)
			off := 100 * (sim.Summarise(flows, parts, 0, rate)[0].Mean/sim.Summarise(flows, whole, 0, rate)[0].Mean - 1)
			worst[i] = max(worst[i], math.Abs(off))
			fmt.Fprintf(b, " %+.1f %% (%.2f) |", off, sim.BusiestPort(flows, rate, hosts))
		}
		b.WriteString("\n")
	}
	for _, name := range publicSets {
		for _, load := range []float64{.6, .8, .9} {
			row(name, 32, load)
		}
	}
	row("datamining_vl2", 144, .8)
	b.WriteString("\n")
	for i, n := range lengths {
		r.judge(fmt.Sprintf("decomposed against exact, bands, %d flows a host, mean time, %% off, worst", n), atMost, 5, 2, worst[i])
	}
}
