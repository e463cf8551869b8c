package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/sheet"
	"github.com/sigma-scheduler/sigma/internal/sheet/sheettest"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// An outcome is the result of an agent in a synthetic comparison.
type outcome struct {
	agent     string
	cost      float64 // core-hours
	violating float64 // per cent
}

func comparison(seeds int, outcomes ...outcome) *Comparison {
	trace := Trace{Name: "load", Digest: "sha256:0123456789abcdef", Hours: 3, Warmup: 1, Mean: 50, Peak: 100, Scale: 1}
	app := App{Name: "web", Percentile: 99, Latency: .25, Replicas: 2, Cores: .5, GiB: 1}
	var names []string
	var results [][]sim.Result
	var minutes [][][]sim.Minute
	var numbers []uint64
	for s := range seeds {
		numbers = append(numbers, uint64(s+1))
	}
	for k, o := range outcomes {
		names = append(names, o.agent)
		var runs []sim.Result
		for s := range seeds {
			r := sim.Result{
				Hours: 2, Requests: 100_000, Violations: int64(1000 * o.violating), P50: .02, P95: .1, P99: .2 + float64(k)/1e3,
				AllP50: .02, AllP95: .1, AllP99: sim.Seconds(.2 + float64(k)/1e3), CoreHours: o.cost + float64(s)/10, CPUUtilisation: .5, MemUtilisation: .6,
			}
			if math.IsNaN(o.violating) {
				r.Requests, r.Violations, r.P50, r.P95, r.P99 = 0, 0, nothing, nothing, nothing
				r.AllP50, r.AllP95, r.AllP99 = sim.Seconds(nothing), sim.Seconds(nothing), sim.Seconds(nothing)
			}
			runs = append(runs, r)
		}
		results = append(results, runs)
		all := make([][]sim.Minute, seeds)
		for m := range 120 * seeds {
			s := m / 120
			m %= 120
			level := 2 + math.Sin(float64(m)/20+float64(k))
			one := sim.Minute{
				Time: 3600 + 60*float64(m+1), Rate: 50 * level, Replicas: int32(2 * level), Ready: int(level),
				CPU: level, CPUUsed: level / 2, Memory: level * (1 << 30), MemoryUsed: level * (1 << 29),
				P50: level / 100, P95: level / 30, P99: level / 10, Violated: level > 2.5,
			}
			if s > 0 {
				one.CPU, one.P99 = one.CPU+float64(3-s), one.P99*float64(s+1)
			}
			switch m {
			case 20, 60:
				one.Scalings = 1
			case 30:
				one.Resizes = 2
			case 50:
				one.Kills, one.P99 = 1, math.Inf(1)
			}
			if m%40 == 7 { // nothing was answered
				one.Rate, one.P50, one.P95, one.P99 = 0, nothing, nothing, nothing
			}
			all[s] = append(all[s], one)
		}
		minutes = append(minutes, all)
	}
	return New(app, trace, numbers, names, results, minutes)
}

func TestSummary(t *testing.T) {
	for name, test := range map[string]struct {
		outcomes []outcome
		want     string
		gap      string // of the agents, in the table
	}{
		"better": {
			[]outcome{{"static", 300, .01}, {"hpa+vpa", 200, .5}, {"autopilot", 150, .9}, {"predictive", 120, 1.1}, {"static-p99", 90, 0}, {"oracle", 100, .4}},
			"hpa+vpa costs 200 (core-hours + GiB-hours ÷ 8) with 0.5 % of requests late or lost; autopilot costs 150 with 0.9 % of requests late or lost, 25 % less: 50 % of the way to the oracle’s 100.",
			"-100 0 50 - 110 100",
		},
		"hpa+vpa is best": {
			[]outcome{{"static", 300, .01}, {"hpa+vpa", 200, .5}, {"hpa", 199.9, .5}, {"oracle", 100, .4}},
			"hpa+vpa costs 200 (core-hours + GiB-hours ÷ 8) with 0.5 % of requests late or lost, and no other agent keeps the promise for less; the oracle costs 100 with 0.4 %.",
			"-100 0 0 100",
		},
		"the promise costs more": {
			[]outcome{{"static", 300, .01}, {"hpa+vpa", 200, 2.5}, {"hpa", 150, 2.4}, {"oracle", 210, .4}},
			"static costs 300 (core-hours + GiB-hours ÷ 8) with 0.01 % of requests late or lost, which keeps the promise; hpa+vpa costs 200 and breaks it with 2.5 %, where 1 % is allowed; the oracle costs 210 with 0.4 %.",
			"",
		},
		"nobody keeps it": {
			[]outcome{{"static", 300, 4}, {"hpa+vpa", 200, 2.5}, {"hpa", 150, 2.4}, {"oracle", 100, .4}},
			"No agent but the oracle answers 99 % of the requests within 250 ms; hpa comes closest with 2.4 % late or lost, where 1 % is allowed; the oracle costs 100 with 0.4 %.",
			"- 0 50 100",
		},
		"no hpa+vpa": {
			[]outcome{{"static", 300, .01}, {"hpa", 150, .001}},
			"hpa costs 150 (core-hours + GiB-hours ÷ 8) with 0.001 % of requests late or lost.", "",
		},
		"alone":    {[]outcome{{"oracle", 1.234, .5}}, "oracle costs 1.23 (core-hours + GiB-hours ÷ 8) with 0.5 % of requests late or lost.", ""},
		"hopeless": {[]outcome{{"hpa", 1, 50}, {"oracle", 3, 7}}, "No agent answers 99 % of the requests within 250 ms; hpa comes closest with 50 % late or lost, where 1 % is allowed; the oracle costs 3.00 with 7 %, over the promise.", ""},
		"cheapest breaks it": {
			[]outcome{{"hpa+vpa", 200, .5}, {"hpa", 10, 1.1}, {"oracle", 100, .4}},
			"hpa+vpa costs 200 (core-hours + GiB-hours ÷ 8) with 0.5 % of requests late or lost, and no other agent keeps the promise for less; the oracle costs 100 with 0.4 %.",
			"0 - 100",
		},
		"no requests": {[]outcome{{"hpa", 1, nothing}}, "No requests came.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := comparison(1, test.outcomes...)
			assert.Equal(t, test.want, c.Summary())
			table := c.table()
			var gaps []string
			if n := len(table.Columns); table.Columns[n-1].Head == "gap %" {
				for _, row := range table.Rows {
					require.Len(t, row.Cells, n)
					gaps = append(gaps, row.Cells[n-1])
				}
			}
			assert.Equal(t, test.gap, strings.Join(gaps, " "))
		})
	}
}

func TestJSON(t *testing.T) {
	c := comparison(2, outcome{"hpa+vpa", 200, .5}, outcome{"oracle", 100, .4})
	empty := &c.Agents[1].Runs[1]
	empty.P50, empty.CPUUtilisation = nothing, nothing
	c.Agents[1].Mean["p50_ms"] = Estimate{Mean: nothing, Half: nothing}
	var b bytes.Buffer
	require.NoError(t, sheet.JSON(&b, c))
	var got struct {
		App struct {
			Latency float64 `json:"slo_latency_seconds"`
		}
		Trace  struct{ Digest string }
		Seeds  []int
		Agents []struct {
			Agent string
			Runs  []map[string]*float64
			Mean  map[string]map[string]*float64
			Gap   float64 `json:"gap_closed"`
		}
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &got))
	assert.InDelta(t, .25, got.App.Latency, 0)
	assert.Equal(t, []int{1, 2}, got.Seeds)
	require.Len(t, got.Agents, 2)
	first, second := got.Agents[0], got.Agents[1]
	assert.Equal(t, "hpa+vpa", first.Agent)
	assert.InDelta(t, 2, *first.Runs[1]["seed"], 0)
	assert.InDelta(t, 200.1, *first.Runs[1]["cost"], 1e-9)
	assert.InDelta(t, 500, *first.Runs[0]["violating_requests"], 0)
	assert.InDelta(t, 200.05, *first.Mean["core_hours"]["mean"], 1e-9)
	assert.Positive(t, *first.Mean["core_hours"]["half"])
	assert.InDelta(t, 1, second.Gap, 1e-9)
	assert.Nil(t, second.Runs[1]["p50_seconds"])
	assert.Nil(t, second.Runs[1]["cpu_utilisation"])
	assert.NotNil(t, second.Runs[1]["p95_seconds"])
	assert.Nil(t, second.Mean["p50_ms"]["mean"])
	for _, m := range measures {
		assert.Contains(t, first.Mean, m.name)
	}
}

func TestHTML(t *testing.T) {
	evil := comparison(1, outcome{"hpa", 100, .5})
	evil.App.Name, evil.Trace.Name, evil.Agents[0].Name = `<script>x</script>`, `"><b>`, `<i>&`
	evil.Trace.Parameters = map[string]string{"<u>": "</u>"}
	unseen := comparison(1, outcome{"hpa", 100, .5}, outcome{"hpa+vpa", 100, nothing})
	unseen.Agents[0].Minutes, unseen.Agents[1].Minutes = nil, nil
	many := []outcome{}
	for i, name := range sim.Agents() {
		many = append(many, outcome{name, 50 + 10*float64(i%7), math.Pow(10, float64(i%6)-3.5)})
	}
	alike := comparison(3, outcome{"hpa", 200, .5}, outcome{"hpa+vpa", 200, .5}, outcome{"oracle", 100, 0})
	for s := range alike.Seeds {
		alike.Agents[0].Runs[s].P99 = alike.Agents[1].Runs[s].P99
	}
	for name, c := range map[string]*Comparison{
		"many": comparison(5, many...), "one": comparison(1, outcome{"hpa", 100, 0}), "evil": evil, "unseen": unseen, "alike": alike,
	} {
		t.Run(name, func(t *testing.T) {
			var first, second bytes.Buffer
			require.NoError(t, c.Report().HTML(&first))
			require.NoError(t, c.Report().HTML(&second))
			page := first.String()
			assert.Equal(t, page, second.String())
			sheettest.Check(t, page)
			assert.Equal(t, name == "many", strings.Contains(page, "The others are drawn below"), "a plot that leaves agents out says so")
			assert.Equal(t, 1, strings.Count(page, `<p class="summary">`))
			assert.Equal(t, len(c.Agents), strings.Count(page, `<th scope="row"`))
			plots := 1
			for _, a := range c.Agents {
				if a.Minutes != nil {
					plots += 4
				}
			}
			if plots > 1 {
				plots += 5
			}
			assert.Equal(t, plots, strings.Count(page, `role="img"`))
			assert.Equal(t, name == "alike", strings.Contains(page, "gave the same results in every run"))
			assert.Equal(t, name == "alike", strings.Contains(page, "hpa+vpa and 1 more"))
			if dir := os.Getenv("REPORT_PAGES"); dir != "" { // to look at them
				require.NoError(t, os.WriteFile(filepath.Join(dir, "mpa-"+name+".html"), first.Bytes(), 0o600))
			}
		})
	}
}

func ExampleComparison_Report() {
	c := comparison(1, outcome{"hpa+vpa", 200, .5}, outcome{"oracle", 100, .4})
	var b bytes.Buffer
	if err := c.Report().Text(&b); err != nil {
		panic(err)
	}
	for line := range strings.Lines(b.String()) {
		fmt.Println(strings.TrimRight(line[:min(len(line), 66)], " \n"))
	}
	// Output:
	// hpa+vpa costs 200 (core-hours + GiB-hours ÷ 8) with 0.5 % of requ
	//
	// web on load: 2 hours, 100000 requests; 99 % of them within 250 ms
	//
	//     agent  cost  core-h  GiB-h  cpu %  memory %  violating %  minu
	//   hpa+vpa   200     200      0     50        60        0.500
	//    oracle   100     100      0     50        60        0.400
}
