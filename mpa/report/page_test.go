package report

import (
	"bytes"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/crdtest"
	"github.com/sigma-scheduler/sigma/internal/sheet"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// Whatever agents cost and break, the sentence never says of one that breaks the promise that it
// costs less, closes a gap or is best.
func TestHeadlineNeverPraisesBreakers(t *testing.T) {
	shares := []float64{0, .5, 1, 1.01, 2.4, 50}
	costs := []float64{50, 150, 250}
	for _, base := range shares {
		for _, other := range shares {
			for _, cost := range costs {
				for _, limit := range shares {
					c := comparison(1, outcome{"hpa+vpa", 200, base}, outcome{"autopilot", cost, other}, outcome{"oracle", 100, limit})
					s := c.Summary()
					t.Log(s)
					if other > 1 {
						assert.NotContains(t, s, "autopilot costs")
						assert.NotRegexp(t, "autopilot .*(less|of the way)", s)
					}
					if base > 1 {
						assert.NotContains(t, s, "hpa+vpa costs 200 (")
						assert.NotContains(t, s, "of the way")
						assert.Regexp(t, "hpa\\+vpa .*breaks it|comes closest|No agent", s)
					}
					if base > 1 && other > 1 {
						assert.Contains(t, s, "No agent")
						assert.Nil(t, c.best())
					}
				}
			}
		}
	}
	// Together the seeds keep the promise, and one of them breaks it.
	c := comparison(2, outcome{"hpa", 100, .5})
	c.Agents[0].Runs[1].Violations = 1400
	assert.Contains(t, c.Summary(), "over the promise in 1 of 2 seeds")
}

// cells are the texts of the cells of an agent's row, with a mark before those that are over the
// promise.
func cells(t *testing.T, page, agent string) []string {
	t.Helper()
	_, row, found := strings.Cut(page, `class="words">`+agent+"</th>")
	require.True(t, found, agent)
	row, _, _ = strings.Cut(row, "</tr>")
	var list []string
	for _, m := range regexp.MustCompile(`<td( class="over" title="([^"]*)")?>([^<]*)</td>`).FindAllStringSubmatch(row, -1) {
		text := m[3]
		if m[1] != "" {
			text = "!" + text
		}
		list = append(list, text)
	}
	return list
}

func TestCellsOverThePromise(t *testing.T) {
	c := comparison(1, outcome{"hpa+vpa", 200, .5}, outcome{"static", 300, 2.5}, outcome{"hpa", 100, 1.5}, outcome{"oracle", 90, 1})
	for agent, p99 := range map[int]float64{0: .249, 1: .3, 2: math.Inf(1)} {
		c.Agents[agent].Runs[0].AllP99 = sim.Seconds(p99)
		c.Agents[agent].Mean["p99_all_ms"] = Estimate{Mean: 1000 * p99}
	}
	var b bytes.Buffer
	require.NoError(t, c.Report().HTML(&b))
	at := func(head string) int {
		for i, m := range measures {
			if m.head == head {
				return i
			}
		}
		t.Fatal(head)
		return 0
	}
	violating, p99 := at("violating %"), at("p99 ms")
	for agent, want := range map[string][2]string{"hpa&#43;vpa": {"0.500", "249"}, "static": {"!2.500", "!300"}, "hpa": {"!1.500", "!lost"}, "oracle": {"1.000", "203"}} {
		row := cells(t, b.String(), agent)
		assert.Equal(t, want, [2]string{row[violating], row[p99]}, agent)
		for i, text := range row {
			if i != violating && i != p99 {
				assert.NotContains(t, text, "!", "%s: no other figure has a limit", agent)
			}
		}
	}
	// The limit is that of the promised percentile alone.
	c.App.Percentile = 95
	b.Reset()
	require.NoError(t, c.Report().HTML(&b))
	assert.Equal(t, "300", cells(t, b.String(), "static")[p99])

	c = comparison(4, outcome{"hpa", 100, .5})
	c.Agents[0].Runs[2].AllP99 = sim.Seconds(math.Inf(1))
	c.Agents[0].Mean["p99_all_ms"] = Estimate{Mean: math.Inf(1), Half: nothing}
	assert.Equal(t, []string{"lost in 1 of 4"}, c.texts(&measures[p99]))
	b.Reset()
	require.NoError(t, c.Report().HTML(&b))
	assert.Equal(t, "!lost\nin 1 of 4", cells(t, b.String(), "hpa")[p99], "though together the seeds keep the promise")
	b.Reset()
	require.NoError(t, sheet.JSON(&b, c))
	assert.Contains(t, b.String(), `"p99_all_seconds": null`)
}

// The marks of an agent's plots are what its minutes say, and minutes without one have none.
func TestMarks(t *testing.T) {
	c := comparison(1, outcome{"hpa", 100, .5})
	count := func() map[string]int {
		var b bytes.Buffer
		require.NoError(t, c.Report().HTML(&b))
		marks := map[string]int{}
		for _, m := range regexp.MustCompile(`<path class="mark (\w+)"[^>]*><title>([^<]*)`).FindAllStringSubmatch(b.String(), -1) {
			marks[m[1]+": "+m[2]]++
		}
		return marks
	}
	// Resizes are on the plots of cores and memory, kills on those of latency and memory.
	assert.Equal(t, map[string]int{"scale: scale": 2, "resize: 2 × resize": 2, "kill: kill": 2}, count())
	for i := range c.Agents[0].Minutes {
		c.Agents[0].Minutes[i].Scalings, c.Agents[0].Minutes[i].Resizes, c.Agents[0].Minutes[i].Kills = 0, 0, 0
	}
	assert.Empty(t, count())
}

// A band reaches from the lowest to the highest run; the line is the first.
func TestBands(t *testing.T) {
	c := comparison(3, outcome{"hpa", 100, .5})
	l := c.Agents[0].line("cores", cores)
	require.Len(t, l.Band, 120)
	assert.InDelta(t, l.Points[5].Value, l.Band[5].Low, 0)
	assert.InDelta(t, l.Points[5].Value+2, l.Band[5].High, 0, "the second run asks for two cores more")
	assert.InDelta(t, math.Inf(1), c.Agents[0].line("p99", p99).Band[50].High, 0)
	assert.Empty(t, comparison(1, outcome{"hpa", 100, .5}).Agents[0].line("cores", cores).Band)
	var b bytes.Buffer
	require.NoError(t, c.Report().HTML(&b))
	assert.Contains(t, b.String(), `<path class="band b0"`)
	assert.Contains(t, b.String(), "Bands reach from the lowest to the highest of the 3 seeds.")
}

// The oracle's minutes over the promise are explained where it has some, and drawn.
func TestOracleMinutes(t *testing.T) {
	c := comparison(1, outcome{"hpa+vpa", 200, .5}, outcome{"oracle", 100, .4})
	assert.Empty(t, c.notes())
	c.Agents[1].Mean["violating_minutes"] = Estimate{Mean: 7}
	require.Len(t, c.notes(), 1)
	assert.Contains(t, c.notes()[0], "The oracle is over the promise in 7 of 120 minutes, and keeps it")
	chart := c.lanes()
	assert.Contains(t, chart.Caption, "The oracle has them too")
	assert.Equal(t, 2, strings.Count(string(chart.SVG()), `<path class="over"`), "one row an agent")
	for i := range c.Agents[1].Minutes {
		c.Agents[1].Minutes[i].Violated = false
	}
	chart = c.lanes()
	assert.NotContains(t, chart.Caption, "oracle")
	assert.Equal(t, 1, strings.Count(string(chart.SVG()), `<path class="over"`))
}

// The page offers an object that the API server takes, for the cheapest agent that keeps the promise
// and that a cluster has.
func TestObject(t *testing.T) {
	target := mpa.Target{
		SLO: mpa.SLO{Percentile: 99.9, Latency: .25}, Replicas: mpa.Range{Min: 2, Max: 40},
		Containers: []mpa.ContainerSpec{{Name: "My App", Min: mpa.Resources{CPU: 250, Memory: 128 << 20}, Max: mpa.Resources{CPU: 8000, Memory: 8<<30 + 1}}},
	}
	crd := crdtest.Load(t, "../../manifests/mpa/crds/multidimpodautoscalers.yaml")
	for name, test := range map[string]struct {
		outcomes []outcome
		agent    string
		want     string
	}{
		"rule":    {[]outcome{{"static", 300, .01}, {"hpa+vpa", 200, .5}, {"hpa", 100, 1.2}, {"oracle", 50, .1}, {"hpa-rps", 60, .1}}, "hpa+vpa", "recommender: {algorithm: hpa+vpa}\n"},
		"learned": {[]outcome{{"hpa+vpa", 200, .5}, {"learned", 100, .1}}, "learned", "recommender: {algorithm: learned, policy: general} #"},
		"file":    {[]outcome{{"hpa+vpa", 200, .5}, {"out/Mine_2.yaml@Serving", 100, .1}}, "out/Mine_2.yaml@Serving", "recommender: {algorithm: learned, policy: mine-2} #"},
		"none":    {[]outcome{{"hpa", 200, 1.5}, {"oracle", 100, .1}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := comparison(1, test.outcomes...)
			c.App.Name, c.App.Target = "My App", target
			text, agent := c.object()
			var b bytes.Buffer
			require.NoError(t, c.Report().HTML(&b))
			assert.Equal(t, test.agent != "", strings.Contains(b.String(), `<div class="copy">`))
			if test.agent == "" {
				assert.Nil(t, agent)
				return
			}
			assert.Equal(t, test.agent, agent.Name)
			assert.Contains(t, text, test.want)
			object, err := crd.Create(t, []byte(text))
			require.NoError(t, err, text)
			assert.Equal(t, "Off", object["spec"].(map[string]any)["mode"])
		})
	}
	c := comparison(1, outcome{"hpa", 1, .1})
	c.App.Target = (&sim.App{}).Target
	text, _ := c.object()
	assert.Empty(t, text, "no bounds are known")
}
