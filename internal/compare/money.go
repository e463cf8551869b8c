package compare

import (
	"math"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// seconds is the time over which a replay integrates.
func seconds(t *trace.Trace) float64 {
	if len(t.Events) == 0 {
		return 0
	}
	from := t.Events[0].Time
	if !math.IsNaN(t.MeasureFrom) {
		from = max(from, t.MeasureFrom)
	}
	return max(0, t.Events[len(t.Events)-1].Time-from)
}
