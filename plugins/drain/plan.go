package drain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/sigma-scheduler/sigma/internal/defrag"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/evict"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

const (
	// seed is the default of sigma rebalance.
	seed = 1
	// failedRetry is the wait before a failed plan is repeated: the cluster could not be read, rights were
	// missing, or its scheduler was killed.
	failedRetry = 10 * time.Minute
	// firstRetry is the wait before a new plan if the last could not begin; each failure in a row doubles it,
	// up to again.
	firstRetry = time.Minute
	// longestEvery is the longest time between plans, as the object allows it.
	longestEvery = 168 * time.Hour
	// maxEmptied are the nodes that a status names.
	maxEmptied = 50
)

// A parsedSpec is a spec that could be read.
type parsedSpec struct {
	spec   *v1alpha1.RebalanceSpec
	goal   v1alpha1.RebalanceGoal
	every  time.Duration
	search defrag.Options
}

// defaultsOf are the time between two plans of a goal, and the most moves.
var defaultsOf = map[v1alpha1.RebalanceGoal]struct{ every, moves string }{
	v1alpha1.RebalanceEmptyNodes: {"15m", "5%"}, v1alpha1.RebalanceRelief: {"1m", "1%"}, v1alpha1.RebalanceFit: {"24h", "1%"},
}

// parseSpec reads a spec. The API server has refused most errors, and has filled in the defaults; an
// object from before a change of the definition may still be wrong.
func parseSpec(spec *v1alpha1.RebalanceSpec) (s parsedSpec, err error) {
	s = parsedSpec{spec: spec, search: defrag.Options{Share: -1, Count: -1, Seed: seed}}
	if spec.Mode != v1alpha1.RebalanceDryRun && spec.Mode != v1alpha1.RebalanceAuto {
		return s, fmt.Errorf("spec.mode: %q: want DryRun or Auto", spec.Mode)
	}
	s.goal = cmp.Or(spec.Goal, v1alpha1.RebalanceEmptyNodes)
	own, ok := defaultsOf[s.goal]
	if !ok {
		return s, fmt.Errorf("spec.goal: %q: want EmptyNodes, Relief or Fit", spec.Goal)
	}
	if s.every, err = time.ParseDuration(cmp.Or(spec.Every, own.every)); err != nil || s.every < time.Minute {
		return s, fmt.Errorf("spec.every: %q: want a duration from 1m on", spec.Every)
	}
	if s.every > longestEvery {
		return s, fmt.Errorf("spec.every: %q: want at most 168h", spec.Every)
	}
	if err := s.search.SetMoves(cmp.Or(spec.Moves, own.moves)); err != nil {
		return s, fmt.Errorf("spec.moves: %q: %w", spec.Moves, err)
	}
	if spec.MinReplicas < 1 {
		return s, fmt.Errorf("spec.minReplicas: %d: want at least 1", spec.MinReplicas)
	}
	if s.goal == v1alpha1.RebalanceRelief && (spec.ReliefPercent < 50 || spec.ReliefPercent > 100) {
		return s, fmt.Errorf("spec.reliefPercent: %d: want 50 to 100", spec.ReliefPercent)
	}
	if s.auto() && (spec.MovesPerHour < 0 || spec.InFlight < 1) {
		return s, fmt.Errorf("spec.movesPerHour: %d, spec.inFlight: %d: want at least 0 and 1", spec.MovesPerHour, spec.InFlight)
	}
	return s, nil
}

func (s *parsedSpec) auto() bool { return s.spec.Mode == v1alpha1.RebalanceAuto }

// due reports whether the next plan is to be made. A last time in the future is of a clock that
// was set back. failures is how many plans in a row could not be begun to be carried out.
func (s *parsedSpec) due(status *v1alpha1.RebalanceStatus, generation int64, failures int, now time.Time) bool {
	last, every := status.LastTime, s.every
	if s.spec.Suspend {
		return false
	}
	if last == nil || status.ObservedGeneration != generation || last.After(now) {
		return true
	}
	stopped := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStopped)
	switch {
	case status.Plan == nil, !status.Plan.Time.Equal(last), stopped != nil && stopped.Reason == noRights:
		every = min(every, failedRetry)
	case stopped != nil && stopped.Reason == failed:
		every = min(every, failedRetry, firstRetry<<min(max(0, failures-1), 10))
	}
	if s.goal == v1alpha1.RebalanceFit && every == day {
		night := now.Add(-afterMidnight).UTC().Truncate(day).Add(afterMidnight)
		return last.Time.Before(night)
	}
	return !now.Before(last.Add(every))
}

// plan searches moves of the profile's pods in a snapshot, which it changes. found is nil if no pod has a node.
// stays names further pods that must not move; nil = no further ones. In mode Auto no more pods of a workload move
// than may be evicted within an hour, of which some were moved.
func (s *parsedSpec) plan(ctx context.Context, p *snapshot.Picture, o *Options, now time.Time, stays func(*v1.Pod) string, moved map[string]int) (plan *v1alpha1.RebalancePlan, found *defrag.Result, err error) {
	s.narrow(p)
	stays = withBatch(p.AllPods, stays)
	r := snapshot.NewRecorder(o.AppLabel, now)
	r.Scheduler, r.Prices = o.Profile, o.Prices
	r.Stays, r.MaxGrace = stays, o.MaxGrace
	r.MinReplicas = int(s.spec.MinReplicas)
	if err := r.Record(p, now); err != nil {
		return nil, nil, err
	}
	plan = &v1alpha1.RebalancePlan{Time: metav1.NewMicroTime(now)}
	if r.Counts().Placed == 0 {
		return plan, nil, nil
	}
	t, _, err := r.Trace("rebalance", o.Fleet)
	if err != nil {
		return nil, nil, err
	}
	start, err := defrag.NewStart(t)
	if err != nil {
		return nil, nil, err
	}
	if s.auto() {
		start.Cap(evict.OfRebalance.OfWorkload, moved)
	}
	found, err = defrag.Search(ctx, start, s.search)
	if err != nil {
		return nil, nil, err
	}
	plan.Nodes, plan.Freed, plan.Bound = int32(found.MachinesBefore), int32(found.MachinesBefore-found.MachinesAfter), int32(found.Bound)
	plan.Moves, plan.LeastMoves = int32(found.Moves), int32(found.LeastMoves)
	plan.Pods, plan.Fixed = int32(found.Items), int32(found.Fixed)
	emptied := found.Emptied()
	for _, e := range emptied[:min(len(emptied), maxEmptied)] {
		plan.Empties = append(plan.Empties, v1alpha1.EmptiedNode{Node: e.Machine, Moves: int32(e.Moves)})
	}
	return plan, found, nil
}

// withBatch adds the pods on nodes with batch pods to those that must not move: a drain does not evict batch pods, so
// that it could not empty their node.
func withBatch(pods []*v1.Pod, stays func(*v1.Pod) string) func(*v1.Pod) string {
	on := map[string]bool{}
	for _, p := range pods {
		if podspec.Batch(p) && !podspec.Ended(p) {
			on[p.Spec.NodeName] = true
		}
	}
	return func(p *v1.Pod) string {
		if on[p.Spec.NodeName] {
			return "a batch pod is on its node"
		}
		if stays == nil {
			return ""
		}
		return stays(p)
	}
}

// narrow keeps the selected nodes, their pods, and the waiting pods. In mode Auto, nodes that take no pods
// are left out too.
func (s *parsedSpec) narrow(p *snapshot.Picture) {
	selector := labels.SelectorFromSet(s.spec.NodeSelector)
	out := map[string]bool{}
	p.KeepWhole()
	p.Nodes = slices.DeleteFunc(p.Nodes, func(n *v1.Node) bool {
		out[n.Name] = !selector.Matches(labels.Set(n.Labels)) || s.auto() && (n.Spec.Unschedulable || !nodeReady(n))
		return out[n.Name]
	})
	p.Pods = slices.DeleteFunc(p.Pods, func(pod *v1.Pod) bool { return out[pod.Spec.NodeName] })
}
