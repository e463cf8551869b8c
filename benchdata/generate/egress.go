package generate

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

const (
	linkOfCore  = 312_500_000 // bits a second of a node's uplink for each of its cores: 10 Gbit/s of 32
	linkShare   = .8          // of the uplink is a node's capacity
	egressSigma = 1.2         // of the logarithm of the traffic that a pod of an app sends
)

// addEgress gives nodes uplinks in proportion to their cores and apps a lognormal traffic, so
// that the declared replicas send a share of the capacity of the target's uplinks. Demand
// beyond the capacity of the smallest node is cut.
func addEgress(rng *rand.Rand, inst *binpack.Instance, work []workload, fleet *nodePools, share float64) {
	if share == 0 {
		return
	}
	inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: "egress", One: 1})
	least, links := int64(math.MaxInt64), 0.
	for i, s := range fleet.sizes {
		limit := int64(math.Round(linkShare * float64(s.cores) * linkOfCore))
		inst.Machines[i].Capacity = append(slices.Clone(inst.Machines[i].Capacity), limit)
		least = min(least, limit)
		if i < len(fleet.shares) {
			links += fleet.shares[i] * fleet.target * float64(s.cores) * linkOfCore
		}
	}
	sends, all := make([]float64, len(work)), 0.
	for i := range work {
		sends[i] = Lognormal(rng, egressSigma)
		all += sends[i] * float64(work[i].replicas)
	}
	for i := range inst.Apps {
		bits := int64(math.Round(sends[i] * share * links / all / 1000)) // in whole kbit/s
		inst.Apps[i].Demand = append(slices.Clone(inst.Apps[i].Demand), min(least, 1000*bits))
	}
}

// addPartners lets a share of the Deployments send half of their traffic to the next one, a pod
// to a pod.
func addPartners(rng *rand.Rand, inst *binpack.Instance, deployments int, share float64) {
	for i := 0; i+1 < deployments; i += 2 {
		sends := inst.Apps[i].Demand[len(inst.Dimensions)-1]
		if rng.Float64() < share && sends > 0 {
			inst.Pairs = append(inst.Pairs, binpack.Pair{App: int32(i), Other: int32(i + 1), Bits: float64(sends / 2), Paired: true})
		}
	}
}
