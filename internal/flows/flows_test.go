package flows

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/report"
	"github.com/sigma-scheduler/sigma/internal/sheet"
	"github.com/sigma-scheduler/sigma/internal/sheet/sheettest"
)

// heavy is a made-up distribution with many short flows and most bytes in few long ones.
const heavy = "size_bytes,cdf\n100,0\n10e3,.5\n100e3,.8\n1e6,.9\n10e6,.98\n30e6,1\n"

func simulation(t *testing.T, names ...string) *Simulation {
	t.Helper()
	sizes, err := flow.ParseSizes("heavy", strings.NewReader(heavy), false)
	require.NoError(t, err)
	policies, err := ParsePolicies(names)
	require.NoError(t, err)
	return &Simulation{Sizes: sizes, Digest: "sha256:0", Load: .8, Rate: 10e9, Flows: 5000, Seed: 1, Seeds: 3, Policies: policies, Workers: 2}
}

func run(t *testing.T, s *Simulation) *report.Comparison {
	t.Helper()
	c, err := s.Run(t.Context())
	require.NoError(t, err)
	return c
}

func TestPolicies(t *testing.T) {
	list, err := ParsePolicies([]string{"fair", "fifo:100", "bands:100k/1.8M", "tuned:8", "hinted:.5/.1", "hinted", "las", "srpt"})
	require.NoError(t, err)
	require.Equal(t, 151_400., list[1].Buffer)
	require.Equal(t, flow.Thresholds{100_000, 1_800_000}, list[2].Thresholds)
	require.Equal(t, 8, list[3].Bands)
	require.Equal(t, .5, list[4].Hints.Error)
	require.Equal(t, .1, list[4].Hints.Wrong)
	require.Equal(t, 1., list[5].Hints.Error)
	for name, want := range map[string]string{
		"fairr":                 `"fairr": unknown policy; there are fair, fifo, bands, tuned, hinted, las, srpt`,
		"fair:1":                "fair takes no value",
		"bands":                 `threshold 1: ""`,
		"bands:2M/1M":           "threshold 2: 1M comes after 2M: want them ascending",
		"bands:1M/1M":           "is equal to the one before",
		"bands:1/2/3/4/5/6/7/8": "8, want at most 7",
		"tuned:9":               `"9": want a number of bands from 2 to 8`,
		"tuned:x":               "want a number of bands",
		"fifo:0":                "want a buffer of 1 to 1e9 packets",
		"hinted:x":              "want the deviation",
		"hinted:NaN":            "error NaN of hints",
		"hinted:1/2":            "share 2 of wrong hints: want 0 to 1",
		"hinted:1/x":            "want the share of wrong hints",
	} {
		_, err := ParsePolicies([]string{name})
		require.ErrorContains(t, err, want, name)
	}
	_, err = ParsePolicies([]string{"fair", "fair"})
	require.ErrorContains(t, err, `"fair": twice`)
	_, err = ParsePolicies(nil)
	require.ErrorContains(t, err, "no policy")
	for _, name := range Names() {
		_, err := ParsePolicies([]string{name})
		require.NoError(t, err)
	}
}

func TestRefused(t *testing.T) {
	for want, change := range map[string]func(s *Simulation){
		"--load 1: want less than 1, or --overload":            func(s *Simulation) { s.Load = 1 },
		"--load NaN: want a number from .001 on":               func(s *Simulation) { s.Load = math.NaN() },
		"--load 0: want a number from .001 on":                 func(s *Simulation) { s.Load = 0 },
		"--load 1e-300: want a number from .001 on":            func(s *Simulation) { s.Load = 1e-300 },
		"--load 11: want at most 10":                           func(s *Simulation) { s.Load, s.Overload = 11, true },
		"--rate 1: want 1k to 1000T":                           func(s *Simulation) { s.Rate = 1 },
		"--hosts 1: want 2 to 10000":                           func(s *Simulation) { s.Hosts = 1 },
		"--exact: needs --hosts":                               func(s *Simulation) { s.Exact = true },
		"--exact does not simulate srpt: it has fair, bands,":  func(s *Simulation) { s.Exact, s.Hosts = true, 4 },
		"--flows 10: want 100 to":                              func(s *Simulation) { s.Flows = 10 },
		"--connections 65536: want 0 to 65535, and no --hosts": func(s *Simulation) { s.Connections = 65536 },
		"--connections 9: want 0 to 65535, and no --hosts":     func(s *Simulation) { s.Connections, s.Hosts = 9, 4 },
		"--gap 2h0m0s: want 0 to 1h":                           func(s *Simulation) { s.Gap = 2 * time.Hour },
		"--seeds 0 --workers 2":                                func(s *Simulation) { s.Seeds = 0 },
	} {
		s := simulation(t, "fair", "srpt")
		change(s)
		_, err := s.Run(t.Context())
		require.ErrorContains(t, err, want)
	}
	s := simulation(t, "fair")
	s.Load, s.Overload = 1.2, true
	require.NoError(t, s.Check())
}

// The same bytes with 1 and with 7 workers, on a link and on a fabric.
func TestWorkers(t *testing.T) {
	for _, hosts := range []int{0, 4} {
		var texts []string
		for _, workers := range []int{1, 7} {
			s := simulation(t, "fair", "fifo", "bands:100k/1.8M/9.9M", "tuned", "hinted", "las", "srpt")
			s.Hosts, s.Workers = hosts, workers
			c := run(t, s)
			var b bytes.Buffer
			require.NoError(t, sheet.JSON(&b, c))
			require.NoError(t, c.Report().Text(&b))
			require.NoError(t, c.Report().HTML(&b))
			texts = append(texts, b.String())
		}
		require.Equal(t, texts[0], texts[1])
	}
}

// On one link: the oracle is not beaten, bands help short flows, tuned ones at least as much as what
// someone set, and estimates help further.
func TestOrder(t *testing.T) {
	s := simulation(t, "fair", "bands:10k/20k/40k", "tuned", "hinted:.5", "las", "srpt")
	s.Flows = 100_000
	c := run(t, s)
	mean := map[string]float64{}
	short := map[string]float64{}
	for _, p := range c.Policies {
		mean[p.Name], short[p.Name] = p.Mean[0].Mean.Mean, p.Mean[1].Mean.Mean
		require.LessOrEqual(t, float64(p.ShareOfOracle), 1+1e-9, p.Name)
		require.Greater(t, float64(p.ShareOfOracle), .2, p.Name)
	}
	require.Less(t, mean["hinted:.5"], mean["tuned"])
	require.Less(t, mean["tuned"], mean["fair"])
	require.Less(t, short["tuned"], short["fair"]/2)
	require.Less(t, mean["tuned"], mean["bands:10k/20k/40k"]*1.02)
	require.Contains(t, c.Summary(), "hinted:.5 against fair sharing: all flows ")
}

// The oracle counts where it is not listed, and there is none for an exact fabric.
func TestOracle(t *testing.T) {
	share := func(change func(s *Simulation), names ...string) report.Number {
		s := simulation(t, names...)
		change(s)
		return run(t, s).Policies[0].ShareOfOracle
	}
	with := share(func(*Simulation) {}, "fair", "srpt")
	require.Equal(t, with, share(func(*Simulation) {}, "fair"))
	require.True(t, math.IsNaN(float64(share(func(s *Simulation) { s.Hosts, s.Exact = 3, true }, "fair"))))
}

// A class without flows is null and a hyphen, and the page of it holds no NaN.
func TestNoLongFlows(t *testing.T) {
	s := simulation(t, "fair", "tuned")
	s.Sizes = s.Sizes.Scaled(.001)
	c := run(t, s)
	var text, table, page bytes.Buffer
	require.NoError(t, sheet.JSON(&text, c))
	require.NoError(t, c.Report().Text(&table))
	require.NoError(t, c.Report().HTML(&page))
	var decoded struct {
		Policies []struct {
			Runs []struct {
				Classes []struct {
					Class string   `json:"class"`
					Mean  *float64 `json:"mean_fct_seconds"`
				} `json:"classes"`
			} `json:"runs"`
		} `json:"policies"`
	}
	require.NoError(t, json.Unmarshal(text.Bytes(), &decoded))
	long := decoded.Policies[0].Runs[0].Classes[3]
	require.Equal(t, "long", long.Class)
	require.Nil(t, long.Mean)
	require.Contains(t, table.String(), "-\n")
	require.Contains(t, c.Summary(), "long ones there are none")
	sheettest.Check(t, page.String())
}

func TestInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	s := simulation(t, "fair", "las")
	s.Done = stop
	_, err := s.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestDone(t *testing.T) {
	s := simulation(t, "fair", "tuned")
	s.Workers = 1
	n := 0
	s.Done = func() { n++ }
	run(t, s)
	require.Equal(t, s.Total(), n)
}
