package whatif

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// byUse is the shop with sizes by use, and for two days .1, .2, .3 and .4 cores of the items of web, 3 of db.
func byUse() *trace.Trace {
	t := shop()
	t.Source = map[string]any{"sizes": map[string]any{"at": 0}}
	for i := range t.Instance.Machines {
		t.Instance.Machines[i].Capacity = []int64{100, 100}
	}
	u := &trace.Usage{}
	add := func(app int32, item string, v float32) {
		s := trace.Series{App: app, Item: item, Step: 3600}
		for range 48 {
			s.Values = append(s.Values, v)
		}
		u.Series = append(u.Series, s)
	}
	for i := range 4 {
		add(0, fmt.Sprintf("web-1/%d", i), .1*float32(i+1))
	}
	add(1, "", 3)
	t.SetUsage(u)
	return t
}

// All items are on one machine of 100 cores, so the worst use is the sum of their uses: of items that were added,
// those of others of their app in turn.
func TestAnswersByUseHaveTheirRisk(t *testing.T) {
	for _, c := range []struct {
		q     Question
		worst float64
	}{
		{Question{Add: "100%"}, .01*2 + .03*2},
		{Question{Apps: []string{"web=+1"}}, .01 + .001 + .03},
		{Question{Apps: []string{"web=-2"}}, .001 + .002 + .03},
		{Question{Lose: 1}, .04}, // all have another machine, and other names
	} {
		a := ask(t, byUse(), c.q)
		require.InDelta(t, .04, a.Now.Use.Worst["cpu"], 1e-6, "%v", c.q)
		require.InDelta(t, c.worst, a.Then.Use.Worst["cpu"], 1e-6, "%v", c.q)
		require.InDelta(t, 100, a.Then.Use.CoveredPercent["cpu"], 1e-6, "%v", c.q)
		require.Equal(t, 1, a.Then.Nodes)
		var text strings.Builder
		require.NoError(t, a.Print(&text))
		require.Contains(t, text.String(), "\nby use    now:  cpu above capacity for 0.0000 % of the node-time (± 0.0000 over 2 days), at worst 0.04 of it")
		require.Contains(t, text.String(), fmt.Sprintf("\n          then: cpu above capacity for 0.0000 %% of the node-time (± 0.0000 over 2 days), at worst %.2f of it", c.worst))
		require.Contains(t, text.String(), "have no risk")
	}
}

// The days that the sizes were fitted to are no part of the risk, also where the trace has no time of measurement.
func TestRiskIsOfLaterDays(t *testing.T) {
	tr := byUse()
	tr.Source["sizes"] = map[string]any{"at": 2 * 86400}
	u, err := tr.Usage()
	require.NoError(t, err)
	for i := range u.Series {
		s := &u.Series[i]
		busy := make([]float32, 48)
		for k := range busy {
			busy[k] = 90
		}
		s.Values = append(busy, s.Values...)
	}
	a := ask(t, tr, Question{Add: "100%"})
	require.InDelta(t, .04, a.Now.Use.Worst["cpu"], 1e-6)
	require.InDelta(t, .08, a.Then.Use.Worst["cpu"], 1e-6)
}

// Without the rows that tell the risk a trace by use has no answer, and others have no risk.
func TestRiskIsOfTracesByUseAlone(t *testing.T) {
	without := byUse()
	without.SetUsage(nil)
	_, err := Ask(t.Context(), without, &Question{Add: "10%"}, options)
	require.ErrorContains(t, err, "lacks the usage.csv.gz")
	a := ask(t, shop(), Question{Add: "100%"})
	text, err := json.Marshal(a)
	require.NoError(t, err)
	require.NotContains(t, string(text), `"use"`)
	require.NotContains(t, string(text), `"note"`)
	require.False(t, math.IsNaN(a.Now.Cost))
}
