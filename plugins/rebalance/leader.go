package rebalance

import (
	"k8s.io/component-base/metrics"
)

// Leads reports whether this process leads, by the metric that leader election keeps of its
// lease. Where there is no election it has none; then a scheduler that has been asked for a
// decision is the only one.
func Leads(all metrics.Gatherer, decides func() bool) bool {
	families, err := all.Gather()
	if err != nil {
		return false
	}
	for _, f := range families {
		if f.GetName() != "leader_election_master_status" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetGauge().GetValue() == 1 {
				return true
			}
		}
		return false
	}
	return decides()
}
