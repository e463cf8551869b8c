package sim

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
)

// publicSets are those of docs/flow-validation.md.
var publicSets = []string{"websearch_dctcp", "fb_hadoop_hpcc", "alibaba_storage_2019", "datamining_vl2"}

// testSeed begins the seeds that nothing is developed on.
const testSeed = 900_000

// appendTable adds a table to the file that SIGMA_BENCH names, and skips without it.
func appendTable(t *testing.T, text string) {
	t.Helper()
	t.Log("\n" + text)
	file, err := os.OpenFile(os.Getenv("SIGMA_BENCH"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = file.WriteString(text + "\n")
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

// TestAccuracy holds public distributions against theory, and the fabric taken apart against the exact one.
// It runs where SIGMA_BENCH names a file for its tables.
func TestAccuracy(t *testing.T) {
	if os.Getenv("SIGMA_BENCH") == "" {
		t.Skip("SIGMA_BENCH is not set")
	}
	var b strings.Builder
	b.WriteString("| load .6, simulated against theory | fair: slowdown | first band: slowdown | srpt: mean | las: mean |\n|---|---|---|---|---|\n")
	thresholds := flow.Thresholds{100_000, 1_800_000, 9_900_000}
	for _, name := range publicSets {
		const load, n = .6, 3_000_000
		tr := Traffic{Sizes: public(t, name), Load: load, Rate: 10 * gigabit}
		flows := tr.Generate(n, testSeed)
		fct := make([]float64, n)
		l := NewLink(tr.Rate)
		l.Bands(flows, nil, fct)
		_, fair := means(flows, fct, tr.Rate)
		l.Bands(flows, thresholds, fct)
		sum, count := 0., 0.
		for i, f := range flows {
			if f.Size <= float64(thresholds[0]) {
				sum, count = sum+fct[i]*tr.Rate/8/f.Size, count+1
			}
		}
		l.SRPT(flows, fct)
		srpt, _ := means(flows, fct, tr.Rate)
		l.LAS(flows, fct)
		las, _ := means(flows, fct, tr.Rate)
		fmt.Fprintf(&b, "| %s |", name)
		for _, c := range [][2]float64{
			{fair, FairSlowdown(load)},
			{sum / count, FirstBandSlowdown(tr.Sizes, load, float64(thresholds[0]))},
			{srpt, SRPTMean(tr.Sizes, load, tr.Rate)},
			{las, LASMean(tr.Sizes, load, tr.Rate)},
		} {
			fmt.Fprintf(&b, " %+.2f %% |", 100*(c[0]/c[1]-1))
			require.InEpsilon(t, c[1], c[0], .01, name)
		}
		b.WriteString("\n")
	}
	appendTable(t, b.String())

	b.Reset()
	b.WriteString("| mean time, decomposed against exact, 1,000 flows a host | hosts | load | busiest port | fair | 4 bands | 4 bands, short flows |\n|---|---|---|---|---|---|---|\n")
	for _, name := range publicSets {
		for _, c := range []struct {
			hosts int
			load  float64
		}{{32, .6}, {32, .8}, {144, .8}} {
			f := Fabric{c.hosts, 10 * gigabit}
			tr := Traffic{Sizes: public(t, name), Load: c.load, Rate: f.Rate, Hosts: c.hosts}
			flows := tr.Generate(1000*c.hosts, testSeed)
			parts, whole := make([]float64, len(flows)), make([]float64, len(flows))
			f.Decomposed(flows, byBands(nil), 1, parts)
			f.Exact(flows, nil, whole)
			x, _ := means(flows, parts, f.Rate)
			y, _ := means(flows, whole, f.Rate)
			f.Decomposed(flows, byBands(thresholds), 1, parts)
			f.Exact(flows, thresholds, whole)
			p, e := Summarise(flows, parts, 0, f.Rate), Summarise(flows, whole, 0, f.Rate)
			fmt.Fprintf(&b, "| %s | %d | %v | %.2f | %+.1f %% | %+.1f %% | %+.1f %% |\n", name, c.hosts, c.load, BusiestPort(flows, f.Rate, c.hosts), 100*(x/y-1), 100*(p[0].Mean/e[0].Mean-1), 100*(p[1].Mean/e[1].Mean-1))
			require.Less(t, math.Abs(p[0].Mean/e[0].Mean-1), .15, "%s %v: a fault, and no inaccuracy", name, c)
		}
	}
	appendTable(t, b.String())
}
