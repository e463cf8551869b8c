package cerebro

import "math/rand/v2"

// A Scenario is a cluster snapshot and the sequence of requests that follows:
// the requests of a trace in an order, the first share of them already placed by
// another policy.
type Scenario struct {
	Order int
	// Snapshot is the share of the requests that are placed when the policy takes over; 0
	// = an empty cluster, or the items of placed.csv.
	Snapshot float64
}

// DrawScenarios draws the scenarios of one trace: its orders 1 … n (with n = 0 the
// file's), each with a snapshot of a share drawn uniformly from [0, most].
func DrawScenarios(seed uint64, n int, most float64) []Scenario {
	if n == 0 {
		return []Scenario{{Order: 0, Snapshot: draw(seed, 0, most)}}
	}
	list := make([]Scenario, n)
	for i := range list {
		list[i] = Scenario{Order: i + 1, Snapshot: draw(seed, i+1, most)}
	}
	return list
}

func draw(seed uint64, order int, most float64) float64 {
	if most == 0 {
		return 0
	}
	return most * rand.New(rand.NewPCG(seed, 1<<32+uint64(order))).Float64()
}
