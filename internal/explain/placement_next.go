package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/shellword"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

// Upstream is the policy that explains a pod where the cluster has none: the default score of kube-scheduler.
const Upstream = "leastallocated"

// tooSmall describes a node that is smaller than the pod in a dimension; "" if only too little is free.
func tooSmall(q *snapshot.Question, m int32, d int) string {
	state := q.State.Columns()
	inst := state.Instance()
	switch has, need := state.Capacity(m)[d], inst.Apps[q.State.AppIndex(q.App)].Demand[d]; {
	case has >= need:
		return ""
	case has == 0:
		return "the node has no " + inst.Dimensions[d].Name
	}
	return "the pod requests more " + inst.Dimensions[d].Name + " than the node has"
}

// larger describes the resource of which a pod requests more than any node has; "" if a node is large enough.
func larger(q *snapshot.Question) string {
	state := q.State.Columns()
	inst := state.Instance()
	need := inst.Apps[q.State.AppIndex(q.App)].Demand
	most, at := make([]int64, len(need)), make([]int32, len(need))
	holds := false
	for m := range int32(state.Size()) {
		all := true
		for d, has := range state.Capacity(m) {
			if has > most[d] {
				most[d], at[d] = has, m
			}
			all = all && has >= need[d]
		}
		holds = holds || all
	}
	if holds || state.Size() == 0 {
		return ""
	}
	for d, dim := range inst.Dimensions {
		if need[d] > most[d] {
			text := fmt.Sprintf("it requests %s %s, and ", trace.FormatAmount(need[d], dim), dim.Name)
			if most[d] == 0 {
				return text + "no node has any"
			}
			return text + fmt.Sprintf("the largest node, %s, has %s", q.State.NodeName(at[d]), trace.FormatAmount(most[d], dim))
		}
	}
	return "no node has enough of all that it requests"
}

// next is the command that shows, or changes, the reason for which a pod waits.
func next(q *snapshot.Question, v *Pod) string {
	namespace, name, _ := strings.Cut(v.Pod, "/")
	namespace, name = shellword.Quote(namespace), shellword.Quote(name)
	nodes := map[string]int{} // by reason
	for _, r := range v.Rejected {
		nodes[r.Reason] += r.Machines
	}
	free := slices.ContainsFunc(v.Rejected, func(r rejection) bool { return strings.HasPrefix(r.What, "too little ") })
	switch {
	case len(v.Gates) > 0:
		return fmt.Sprintf("kubectl -n %s get pod %s -o jsonpath='{.spec.schedulingGates}'", namespace, name)
	case v.Chosen != nil:
		return fmt.Sprintf("kubectl -n %s describe pod %s", namespace, name)
	case v.Larger != "":
		return "kubectl get nodes -o custom-columns=NAME:.metadata.name,CPU:.status.allocatable.cpu,MEMORY:.status.allocatable.memory"
	case free:
		return "sigma snapshot --out snap && sigma rebalance --trace snap --make-room --out moves.csv"
	case nodes["selector"] > 0:
		state := q.State.Columns()
		for m := range int32(state.Size()) {
			if key := q.MissingKey(q.State.NodeName(m)); key != "" && !strings.HasPrefix(key, "metadata.") {
				return "kubectl get nodes -L " + shellword.Quote(key)
			}
		}
		return "kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints[*].key"
	case nodes["condition"] > 0:
		return "kubectl get nodes"
	case len(q.Cordoned) > 0:
		return "kubectl uncordon " + shellword.Quote(q.Cordoned[0])
	}
	return fmt.Sprintf("kubectl -n %s describe pod %s", namespace, name)
}
