package autoscaler

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/scaling"
	"github.com/sigma-scheduler/sigma/lab/records"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// two is a comparison of two agents with the limit on two scenarios: in the first all
// keep the SLO of 99 %, in the second the pair breaks it.
func two() *comparison {
	target := mpa.Target{SLO: mpa.SLO{Percentile: 99}}
	scenario := func(name string) sim.Scenario {
		return sim.Scenario{Name: name, App: sim.App{Name: "app", Target: target}}
	}
	t := &comparison{
		side: "test", agents: []string{pair, "predictive", limit}, scenarios: []sim.Scenario{scenario("kept"), scenario("broken")},
		file: "runs.jsonl", seconds: 1.5,
	}
	// cost of the runs of an agent, in core-hours, and violations of 1000 requests
	for _, agent := range [][2][2]float64{{{10, 0}, {20, 50}}, {{7, 20}, {5, 0}}, {{6, 0}, {4, 0}}} {
		var all [][]sim.Result
		for _, run := range agent {
			var list []sim.Result
			for range seeds {
				list = append(list, sim.Result{Hours: 2, CoreHours: run[0], Requests: 1000, Violations: int64(run[1])})
			}
			all = append(all, list)
		}
		t.runs = append(t.runs, all)
	}
	return t
}

func TestGap(t *testing.T) {
	c := two()
	for a, want := range []float64{0, 0, 100} {
		// Only the first scenario counts. The second agent broke the SLO there: its cost
		// counts as the pair's, 10. The limit saves all of 10 − 6.
		shares, ok := c.gap(a)
		require.True(t, ok)
		for _, share := range shares {
			assert.InDelta(t, want, share, 1e-9, c.agents[a])
		}
	}
	c.runs[1][0][0].Violations = 0 // 3 of the 4 core-hours that could be saved
	shares, _ := c.gap(1)
	assert.InDelta(t, 75, shares[0], 1e-9)
	assert.InDelta(t, 0, shares[1], 1e-9)

	assert.Equal(t, []int{seeds, seeds + 1, 2 * seeds}, []int{c.kept(0), c.kept(1), c.kept(2)})
}

func TestPage(t *testing.T) {
	c := two()
	c.skipped = []string{"nasa"}
	page := c.page().String()
	assert.Contains(t, page, "2 scenarios of 4 hours in all")
	assert.Contains(t, page, "\nLeft out without their traces (SIGMA_DATA): nasa.\n")
	assert.Contains(t, page, "\n| app/broken | *20.00* | 5.00 | 4.00 |\n")
	assert.Contains(t, page, "\nNo agent was in any run cheaper than the oracle without more violating requests.\n")
	assert.True(t, strings.HasSuffix(page, "\n2 CPU-seconds, `make mpa-records SIDE=test`. Every run: `runs.jsonl`.\n"), page[len(page)-200:])

	// The summary finds its columns on a page of all scenarios.
	tables, err := records.ParseTables(strings.Replace(page, "SLO kept, of 10", "SLO kept, of 60", 1))
	require.NoError(t, err)
	short, err := Highlights()[0].Table(tables)
	require.NoError(t, err)
	require.Len(t, short.Rows, 3)
	assert.Equal(t, []string{pair, "30.0", "2.50", "0", "5", "0.0"}, short.Rows[0])

	c.runs[1][0][0] = sim.Result{CoreHours: 1, Requests: 1000}
	assert.Equal(t, "Cheaper than the oracle without more violating requests: predictive on app/kept with seed 1 (1.000 < 6.000).",
		c.beaten())
}

// Agents that resize often are simulated again with one budget for all resizes; the table of
// those has the pair and the limit beside them.
func TestFewResizes(t *testing.T) {
	scenario, err := sim.NewGenerator("train", "")
	require.NoError(t, err)
	one, err := scenario.Generate(40)
	require.NoError(t, err)
	list, err := scaling.Agents([]string{pair, "learned", limit}, "")
	require.NoError(t, err)
	c := two()
	c.agents, c.scenarios, c.guards = []string{pair, "learned", limit}, []sim.Scenario{one}, mpa.DefaultGuards()
	for a := range c.runs {
		c.runs[a] = c.runs[a][:1]
	}
	require.NoError(t, c.fewer(t.Context(), list, 2))
	require.Nil(t, c.few, "none resizes often")
	c.runs[1][0][3].MostRequestChanges = 20
	require.NoError(t, c.fewer(t.Context(), list, 2))
	assert.Equal(t, c.agents, c.few.agents)
	assert.Equal(t, c.runs[0], c.few.runs[0])
	assert.Equal(t, c.runs[2], c.few.runs[2])
	for _, r := range c.few.runs[1][0] {
		assert.LessOrEqual(t, r.MostRequestChanges, c.guards.RequestChanges)
		assert.Positive(t, r.MostRequestChanges)
	}
	require.NoError(t, c.few.check())
	assert.Contains(t, c.page().String(), "With 6 changes of requests in an hour, those of cpu alone among them")
	assert.Contains(t, Agents(), "learned")
	assert.Equal(t, limit, Agents()[len(Agents())-1])
}

func TestRefusals(t *testing.T) {
	cfg := Config{Agents: []string{"hpa"}, Docs: t.TempDir(), Out: t.TempDir(), Workers: 1, Seconds: func() float64 { return 0 }}
	require.ErrorContains(t, Run(t.Context(), "test", cfg), "use --agents together with --print")
	cfg.Agents = Agents()
	err := Run(t.Context(), "test", cfg)
	require.ErrorContains(t, err, "without SIGMA_DATA there are no traces for ")
	require.NoFileExists(t, filepath.Join(cfg.Docs, Page("test")))
	cfg.Agents = []string{"hpaa"}
	cfg.Print = &bytes.Buffer{}
	require.ErrorContains(t, Run(t.Context(), "test", cfg), `unknown agent "hpaa": there are `)
}
