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

// SnapshotOrders is the default number of shuffled orders of a trace that is [Unordered].
const SnapshotOrders = 20

// Unordered reports whether a trace is a snapshot of a cluster: its items were all there at one moment, and none
// leaves, so that the order of the file is one of luck.
func Unordered(t *trace.Trace) bool {
	return t.Source["origin"] == clusterOrigin && seconds(t) == 0
}
