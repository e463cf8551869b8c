package month

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// total is the number of items that live at a time, and the cpu that they use.
func total(t *trace.Trace, u *trace.Usage, at float64) (items int, cpu float64) {
	alive := make([]int32, len(t.Requests))
	for _, e := range t.Events {
		switch {
		case e.Time > at:
		case e.Kind == trace.Create:
			alive[e.Request] = e.Count
		default:
			alive[e.Request] -= e.Count
		}
	}
	for _, n := range alive {
		items += int(n)
	}
	u.Items(t, func(s *trace.Series, request, number int32) {
		if v := float64(s.At(at)); s.Dimension == 0 && number < alive[request] && v == v {
			cpu += v
		}
	})
	return items, cpu
}

// Three times the load is that for an hour, and the recorded one before and after it.
func TestLoads(t *testing.T) {
	tr, err := generate.Generate("kubernetes", 5, map[string]string{"nodes": "10", "fleet": "open", "usage": "1", "days": "2"})
	require.NoError(t, err)
	u, err := tr.Usage()
	require.NoError(t, err)
	from := 1*day + faultAt
	more, used := replicas(tr, u, from, from+hour)
	above := use(u, from, from+hour)
	for at, times := range map[float64]float64{from - 60: 1, from + 1800: surge, from + hour + 60: 1} {
		items, cpu := total(tr, u, at)
		many, theirs := total(more, used, at)
		_, same := total(tr, above, at)
		assert.InEpsilon(t, times*float64(items), many, .1, "but for pods that come or leave within the hour")
		assert.InEpsilon(t, times*cpu, theirs, .1)
		assert.InEpsilon(t, times*cpu, same, 1e-6)
	}
}
