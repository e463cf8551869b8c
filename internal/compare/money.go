package compare

import (
	"math"

	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// pricesOf reads a trace's source.prices, which sigma snapshot writes: machines by where their prices come
// from, and a currency. Costs that a linear model made are no money.
func pricesOf(t *trace.Trace) report.Prices {
	prices, _ := t.Source["prices"].(map[string]any)
	currency, _ := prices["currency"].(string)
	return report.Prices{Known: prices["file"] != nil || prices["annotation"] != nil, Currency: currency}
}

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
