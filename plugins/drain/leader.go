package drain

import (
	"k8s.io/component-base/metrics"
)

// Leads reports whether this process leads, by the leader-election metric of its lease.
// Without leader election there is no such metric; then a scheduler leads once it was
// called for a decision.
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
