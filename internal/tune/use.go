package tune

import "github.com/sigma-scheduler/sigma/cerebro/report"

// allowedOver is the percentage of node-time above capacity that a policy may always have; more
// only where the rule that it is compared with has as much.
const allowedOver = .02

// use is the risk of all spans together; nil by request.
func (l losses) use() *report.Use { return report.MeanUse(l.uses(), "span") }

// uses are the risks of the spans that are judged by use. The replays of a span are of the same days.
func (l losses) uses() (list []*report.Use) {
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
	return list
}

// risk is the largest percentage of node-time above capacity over the dimensions, each the mean of the spans that judge it.
func (l losses) risk() (most float64) {
	sum, n := map[string]float64{}, map[string]float64{}
	for _, u := range l.uses() {
		for d, v := range u.OverPercent {
			sum[d], n[d] = sum[d]+v, n[d]+1
		}
	}
	for d := range sum {
		most = max(most, sum[d]/n[d])
	}
	return most
}
