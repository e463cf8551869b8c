package explain

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

// A Pod explains the node of a pod, or the node it would get.
type Pod struct {
	Pod     string           `json:"pod"`
	Node    string           `json:"node"` // its node, past or present; empty = it waits
	Waits   string           `json:"waits,omitempty"`
	Gates   []string         `json:"gates,omitempty"` // for which it waits, before a scheduler tries it
	Log     *ledger.Decision `json:"log,omitempty"`
	LogFile string           `json:"logFile,omitempty"` // of a log of several
	Line    int              `json:"line,omitempty"`
	Time    string           `json:"time,omitempty"`
	Mode    string           `json:"mode,omitempty"` // of the policy
	// Of a policy that reads a clock: the share of the workload's window that is over; or,
	// without an active window, the policy's name: another one replaces it.
	Elapsed  *float64 `json:"elapsed,omitempty"`
	NoWindow string   `json:"noWindow,omitempty"`
	Filters  []string `json:"filters,omitempty"`
	// NoPolicy: the cluster has no PlacementPolicy, and kube-scheduler's default score ranks.
	NoPolicy bool              `json:"noPolicy,omitempty"`
	Larger   string            `json:"larger,omitempty"`  // why the pod is larger than any node; empty = it is not
	Holders  []snapshot.Holder `json:"holders,omitempty"` // of an extended resource that is too little
	Next     string            `json:"next,omitempty"`    // command for a pod that waits
	Compared int               `json:"compared"`          // candidates: in an open fleet one empty node of each kind
	decision
}

// OfPod explains where a policy would place a pod.
func OfPod(q *snapshot.Question, found compare.Found) (*Pod, error) {
	app, state := q.State.AppIndex(q.App), q.State.Columns()
	object := found.Object
	found, elapsed, noWindow, err := inWindow(q, found)
	if err != nil {
		return nil, err
	}
	ranking, err := q.State.Explain(found.Policy, app, q.Allowed)
	if err != nil {
		return nil, err
	}
	e := &cerebro.Explanation{App: app, Machines: state.Active(), Offered: state.Size(), Explanation: ranking}
	v := &Pod{
		Pod: q.Pod, Node: q.Node, Waits: q.Waits, Gates: q.Gates, Log: q.Decision, LogFile: q.File, Line: q.Line, Filters: q.Beyond,
		Compared: e.Candidates, decision: decisionOf(state.Instance(), e),
	}
	v.Candidates, v.Elapsed, v.NoWindow = len(q.Allowed), elapsed, noWindow
	v.Policy, v.File, v.Knowledge = found.Name, cmp.Or(found.File, v.File), found.Policy.Knowledge().String()
	v.Rejected, v.NoPolicy, v.Larger = podRejections(q), q.NoPolicy, larger(q)
	if v.Chosen == nil {
		v.Holders = q.Holders
	}
	if q.Decision == nil && q.Node == "" {
		v.Next = next(q, v)
	}
	if q.Decision != nil {
		v.Time, v.Mode = time.UnixMicro(bounded.Int(q.Time*1e6)).UTC().Format(time.RFC3339), q.Decision.Mode
	} else if object != nil && q.Active {
		v.Mode = string(cmp.Or(object.Spec.Mode, policy.DefaultMode))
	}
	return v, nil
}

// inWindow is the policy that decides on the question's pod in place of a file that reads a
// clock, where no window is active.
func inWindow(q *snapshot.Question, found compare.Found) (by compare.Found, elapsed *float64, without string, err error) {
	if found.Object == nil || !found.Policy.Knowledge().Clock() {
		return found, nil, "", nil
	}
	if t := q.State.Elapsed(q.State.AppIndex(q.App)); t >= 0 {
		return found, &t, "", nil
	}
	by, err = PolicyOf(ledger.ClocklessPolicy(found.Object, q.State.Columns().Instance().Fleet), q)
	return by, nil, found.Name, err
}

// podRejections counts the nodes that do not take a pod by the first reason: reasons of
// the packing model are first, then those of other filters.
func podRejections(q *snapshot.Question) []rejection {
	state := q.State.Columns()
	inst := state.Instance()
	app := q.State.AppIndex(q.App)
	counts := map[binpack.Reason]int{}
	closed, unready, small := map[string]int{}, map[string]int{}, map[string]int{}
	elsewhere := 0
	for m := range int32(state.Size()) {
		if slices.Contains(q.Allowed, m) {
			continue
		}
		name := q.State.NodeName(m)
		why := state.Why(app, m)
		if why.Kind == binpack.TooSmall && !why.Zone {
			if what := tooSmall(q, m, why.Index); what != "" {
				small[what]++
				continue
			}
		}
		switch taint := q.Unready[name]; {
		case why.Kind == binpack.WrongType && taint != "":
			unready["the node has the taint "+taint]++
		case why.Kind == binpack.Accepted:
			elsewhere++
		case why.Kind == binpack.WrongType:
			closed[cmp.Or(q.Refusal(name), "taints, or the pod's node selector or affinity")]++
		default:
			counts[why]++
		}
	}
	list := rejectionsOf(inst, inst.Apps[app], counts)
	add := func(reason string, counts map[string]int) {
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			list = append(list, rejection{reason, what, counts[what]})
		}
	}
	add("capacity", small)
	add("selector", closed)
	add("condition", unready)
	if elsewhere > 0 {
		list = append(list, rejection{"filters", "the scheduler's other filters refused the node", elsewhere})
	}
	if len(q.Cordoned) > 0 {
		list = append(list, rejection{"cordoned", strings.Join(q.Cordoned[:min(most, len(q.Cordoned))], ", "), len(q.Cordoned)})
	}
	return list
}
