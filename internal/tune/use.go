package tune

import "github.com/sigma-scheduler/sigma/cerebro/report"

// allowedOver is the percentage of node-time above capacity that a policy may always have; more
// only where the rule that it is compared with has as much.
const allowedOver = .02

// use is the risk of all spans together; nil by request. The replays of a span are of the same days.
func (l losses) use() *report.Use {
	var list []*report.Use
	for _, orders := range l {
		var same []*report.Use
		for _, one := range orders {
			if one.use != nil {
				same = append(same, one.use)
			}
		}
		if len(same) > 0 {
			list = append(list, report.UseOfSameDays(same))
		}
	}
	return report.MeanUse(list, "span")
}

// risk is the largest percentage of node-time above capacity over the dimensions; 0 by request.
func (l losses) risk() (most float64) {
	if u := l.use(); u != nil {
		for _, v := range u.OverPercent {
			most = max(most, v)
		}
	}
	return most
}
