package report

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/sim"
	"github.com/sigma-scheduler/sigma/internal/sheet/sheettest"
)

// comparison has two seeds; its numbers are easy to follow.
func comparison() *Comparison {
	class := func(ms, slow float64) sim.Class {
		return sim.Class{Flows: 10, Mean: ms / 1000, P99: 10 * ms / 1000, Slow: slow, Slow9: 10 * slow}
	}
	runs := func(all, short float64) [][4]sim.Class {
		none := sim.Class{Mean: math.NaN(), P99: math.NaN(), Slow: math.NaN(), Slow9: math.NaN()}
		return [][4]sim.Class{
			{class(all, 5), class(short, 2), class(2*all, 3), none},
			{class(3*all, 5), class(short, 2), class(2*all, 3), none},
		}
	}
	seeds := []uint64{4, 5}
	return &Comparison{
		Setting: Setting{Sizes: "made-up", Digest: "sha256:00", Mean: 1000, Load: .5, Rate: 1e9, Flows: 100, WarmUp: 10},
		Seeds:   seeds, Realised: []Number{.49, .52},
		Policies: []Policy{
			NewPolicy("fair", nil, seeds, runs(8, 4), 4),
			NewPolicy("fifo:10", nil, seeds, runs(9, 5), 4),
			NewPolicy("tuned", flow.Thresholds{1000, 20_000}, seeds, runs(4, 1), 4),
			NewPolicy("srpt", nil, seeds, runs(2, 1), 4),
		},
	}
}

func TestFigures(t *testing.T) {
	c := comparison()
	p := &c.Policies[2]
	require.InDelta(t, .008, float64(p.Mean[0].Mean.Mean), 1e-12, "of 4 and 12 ms")
	require.InDelta(t, 12.706*.004, float64(p.Mean[0].Mean.Half), 1e-4, "Student's t of one degree of freedom")
	require.InDelta(t, 4/.008, float64(p.ShareOfOracle), 1e-9)
	require.Equal(t, "tuned against fair sharing: all flows 2.00 times faster in the mean, short ones 4.00 times faster, long ones there are none.", c.Summary())
	require.Equal(t, "made-up, mean 1000 bytes, load 0.5 (realised 0.490 to 0.520) on one link of 1Gbit/s; 100 flows and 2 seeds, the first 10 flows not counted", c.about())
	c.Policies = c.Policies[2:]
	require.Equal(t, "tuned has the smallest mean time, 8.00 ms; its short flows take 1.00 ms.", c.Summary())
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, comparison().Report().Text(&b))
	var row []string
	for line := range strings.Lines(b.String()) {
		if fields := strings.Fields(line); strings.HasPrefix(line, " ") && len(fields) > 3 && fields[0] == "tuned" {
			row = fields
			break
		}
	}
	// All flows (4 and 12 ms), their interval, short and medium ones; no long one.
	require.Equal(t, []string{"tuned", "50000.0", "8.00", "50.8", "80.0", "1.00", "10.0", "8.00", "80.0", "-", "-"}, row)
	require.Contains(t, b.String(), "tuned: thresholds 1k/20k, found on other arrivals\n")
	require.Contains(t, b.String(), "fifo:10: a model of the common queue")
}

// A fabric taken apart warns of the seeds whose arrivals were too much for a port; an exact one has no need to.
func TestBusiestPort(t *testing.T) {
	c := comparison()
	c.Setting.Hosts, c.Busiest = 8, []Number{1.164, 1}
	warning := fmt.Sprintf("seed %d: a port had 1.16 times what it can send", c.Seeds[0])
	require.Contains(t, strings.Join(c.notes(), "\n"), warning)
	require.NotContains(t, strings.Join(c.notes(), "\n"), fmt.Sprintf("seed %d:", c.Seeds[1]))
	c.Setting.Exact = true
	require.NotContains(t, strings.Join(c.notes(), "\n"), "a port had")
}

func TestDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00", 1: "1.00", 9.999: "10.00", 123.4: "123", .02664: "0.0266", 1e-7: "1e-07", 5e6: "5e+06", 12345: "12345"} {
		require.Equal(t, want, digits(v), v)
	}
	require.Equal(t, "-", digits(math.NaN()))
}

func TestPage(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, comparison().Report().HTML(&b))
	sheettest.Check(t, b.String())
	require.Contains(t, b.String(), `"kind":"sigma flow simulate"`)
	require.Equal(t, 1, strings.Count(b.String(), "<svg"))
}
