package expander

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A bid is an option of cluster-autoscaler with its cost.
type bid struct {
	group        string
	nodes, used  int // that are added; that get pods
	pods, placed int
	price        float64 // of a node an hour
	by           kube.PriceSource
	worth        float64 // of the placed pods
}

// worth returns the demand of a pod as one number: its cost an hour by the linear model. One that requests nothing counts as a hundredth of a cpu.
func worth(p *v1.Pod) float64 {
	return max(kube.Linear(podspec.Demand(p)), kube.Linear(map[string]int64{"cpu": 10}))
}

// count counts the pods that are placed, and their nodes.
func (b *bid) count(pods []*v1.Pod, places []int) {
	used := map[int]bool{}
	for i, place := range places {
		if place >= 0 {
			used[place] = true
			b.placed++
			b.worth += worth(pods[i])
		}
	}
	b.used = len(used)
}

// priced reports whether the price is known. The linear model is no price: by it all types cost alike.
func (b *bid) priced() bool { return b.by != kube.ByModel && b.by != kube.ByLinux }

// cost is the price of all added nodes for each unit of placed demand.
func (b *bid) cost() float64 { return b.price * float64(b.nodes) / b.worth }

func (b *bid) String() string {
	text := fmt.Sprintf("%s: %d of %d pods on %d of %d nodes", b.group, b.placed, b.pods, b.used, b.nodes)
	switch {
	case !b.priced():
		return text + ", no price"
	case b.placed == 0:
		return fmt.Sprintf("%s, %.4g an hour each (%s)", text, b.price, b.by)
	}
	return fmt.Sprintf("%s, %.4g an hour each (%s): %.4g times the model's cost of the pods' requests", text, b.price, b.by, b.cost())
}

// equalCost is the relative difference up to which two costs are equal.
const equalCost = 1e-9

// choose returns the bids of the least cost, or all with the reason for which it abstains.
func choose(bids []*bid) (best []*bid, abstains string) {
	least := math.Inf(1)
	for _, b := range bids {
		switch {
		case b.placed == 0:
		case !b.priced():
			return bids, "no price of a node of group " + b.group
		default:
			least = min(least, b.cost())
		}
	}
	if math.IsInf(least, 1) {
		return bids, "no pod fits on a new node"
	}
	for _, b := range bids {
		if b.placed > 0 && b.cost() <= least*(1+equalCost) {
			best = append(best, b)
		}
	}
	return best, ""
}
