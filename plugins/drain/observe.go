package drain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// observe gathers the observed state of the drain in progress.
func (c *controller) observe(ctx context.Context, x *execution, d *drain, pods []*v1.Pod, nodes map[string]*v1.Node) observation {
	n := nodes[d.node]
	e := observation{stop: strings.TrimSuffix(x.stop.message, "."), reserved: x.reservation != nil, err: x.err}
	e.cordoned = n != nil && (d.keeps || isCordonedBy(n, x.name))
	s := newPodIndex(d, pods, c.AppLabel)
	s.others = podspec.NewOthers(pods, slices.Collect(maps.Values(nodes)), c.AppLabel)
	e.empty, e.running = !s.occupied, map[types.UID]bool{}
	e.complete = e.cordoned && (d.keeps || e.empty && n.Annotations[emptiedAt] != "") && d.count(func(m *move) bool { return m.done }) == len(d.moves)
	for _, m := range d.moves {
		p := s.byUID[m.moved.pod.UID]
		e.running[m.moved.pod.UID] = p != nil && p.DeletionTimestamp == nil
	}
	for _, p := range s.ofGroups {
		if x.before != nil && !x.before[p.UID] && p.Spec.NodeName != "" && slices.ContainsFunc(d.moves, func(m *move) bool {
			return m.group == s.group[p] && m.to == p.Spec.NodeName
		}) {
			e.arrived = append(e.arrived, arrival{p, s.group[p], podspec.Ready(p)})
		}
		if isUnschedulable(p) && s.away[s.group[p]] && !s.ending[s.group[p]] {
			e.stranded = nameOf(p)
		}
	}
	for _, m := range d.moves {
		if m.away() && s.byUID[m.moved.pod.UID] == nil && !s.ending[m.group] && !slices.ContainsFunc(s.ofGroups, func(p *v1.Pod) bool {
			return s.group[p] == m.group && !x.before[p.UID] && !slices.ContainsFunc(d.moves, func(o *move) bool { return o.done && o.moved.pod.UID == p.UID })
		}) {
			e.missing = nameOf(m.moved.pod)
		}
	}
	stays := c.Site.NotEvictable()
	e.blocked = func(m *move) block {
		switch short := s.shortage(m, nodes[m.to]); {
		case short != "":
			return block{why: short}
		case stays(m.moved.pod):
			return block{why: "a disruption budget keeps " + nameOf(m.moved.pod)}
		}
		return block{why: c.refusal(ctx, m)}
	}
	e.lost = c.infeasible(ctx, x, d, n, s, nodes)
	return e
}

// refusal returns why the scheduler's filters refuse the replacement of a move's pod. A refusal holds for a while: the
// question costs as much as the cluster is large.
func (c *controller) refusal(ctx context.Context, m *move) string {
	if now := c.clock.Now(); m.refusal == "" || now.Before(m.refusedAt) || now.Sub(m.refusedAt) >= refusalTTL {
		m.refusedAt = now
		m.refusal = c.Site.Refusal(ctx, []*v1.Pod{m.moved.pod}, kube.Place{Pod: m.moved.pod, Node: m.to})
	}
	return m.refusal
}

// infeasible returns why the moves of a drain cannot be made any more.
func (c *controller) infeasible(ctx context.Context, x *execution, d *drain, n *v1.Node, s *podIndex, nodes map[string]*v1.Node) string {
	switch {
	case n == nil:
		return "the node is gone"
	case !nodeReady(n):
		return "the node is not ready"
	case isProtected(n):
		return "an annotation forbids to remove the node"
	case n.Spec.Unschedulable && !isCordonedBy(n, x.name):
		return "the node is cordoned by somebody else"
	case d.stage > starting && !n.Spec.Unschedulable && !d.keeps:
		return "somebody has uncordoned the node"
	case s.unplanned != "" && !d.keeps:
		return s.unplanned + " has come to the node"
	}
	for _, m := range d.moves {
		if m.begun {
			continue
		}
		p := s.byUID[m.moved.pod.UID]
		switch {
		case p == nil:
			return nameOf(m.moved.pod) + " is gone"
		case podspec.Movable(p, c.MaxGrace, s.others) != "":
			return nameOf(p) + " must stay: " + podspec.Movable(p, c.MaxGrace, s.others)
		case p.Spec.SchedulerName != c.Profile:
			return nameOf(p) + " is of the scheduler " + p.Spec.SchedulerName
		case s.running[m.group] < int(x.object.Spec.MinReplicas) && !s.away[m.group]:
			return fmt.Sprintf("%s is one of %d pods of its workload", nameOf(p), s.running[m.group])
		}
		if d.stage < reserved && c.Holder.Claimed(m.group) {
			return "a plan or make-room moves pods of " + m.group
		}
	}
	if d.stage < reserved {
		if short := s.shortageOfAll(d, nodes); short != "" || !d.since.IsZero() {
			return short
		}
		return c.drainRefusal(ctx, d)
	}
	for _, m := range d.moves {
		if to := nodes[m.to]; !m.done && (to == nil || to.Spec.Unschedulable || !nodeReady(to)) {
			return "node " + m.to + " is gone, cordoned or not ready"
		}
	}
	return ""
}

// drainRefusal runs the filters for all moves of a drain that has not begun, once all of its pods have left.
func (c *controller) drainRefusal(ctx context.Context, d *drain) string {
	var leave []*v1.Pod
	var places []kube.Place
	for _, m := range d.moves {
		leave, places = append(leave, m.moved.pod), append(places, kube.Place{Pod: m.moved.pod, Node: m.to})
	}
	return c.Site.Refusal(ctx, leave, places...)
}

// A podIndex holds the pods of a cluster that concern a drain.
type podIndex struct {
	byUID     map[types.UID]*v1.Pod
	ofGroups  []*v1.Pod // of the drain's groups
	group     map[*v1.Pod]string
	running   map[string]int // pods by group
	away      map[string]bool
	ending    map[string]bool             // groups with a pod that has a node and is being deleted
	used      map[string]map[string]int64 // by node that a pod will move to, and dimension
	expected  map[string]map[string]int64 // of that, the part still to arrive: of moves begun and not finished
	occupied  bool                        // an evictable pod is on the drain's node
	unplanned string                      // a pod that the plan does not contain
	others    *podspec.Others             // constraints of pods on other pods
}

func newPodIndex(d *drain, pods []*v1.Pod, appLabel string) *podIndex {
	s := &podIndex{byUID: map[types.UID]*v1.Pod{}, group: map[*v1.Pod]string{}, running: map[string]int{}, away: map[string]bool{}, ending: map[string]bool{}, used: map[string]map[string]int64{}, expected: map[string]map[string]int64{}}
	groups, spaces, known := map[string]bool{}, map[string]bool{}, map[types.UID]bool{}
	for _, m := range d.moves {
		groups[m.group], spaces[m.moved.pod.Namespace], known[m.moved.pod.UID] = true, true, true
		s.away[m.group] = s.away[m.group] || m.away()
		s.used[m.to], s.expected[m.to] = map[string]int64{}, map[string]int64{}
	}
	for _, p := range pods {
		if podspec.Ended(p) {
			continue
		}
		s.byUID[p.UID] = p
		addDemand(s.used[p.Spec.NodeName], p, 1)
		if p.Spec.NodeName == d.node && podspec.Moves(p) {
			s.occupied = true
			if !known[p.UID] && p.DeletionTimestamp == nil {
				s.unplanned = nameOf(p)
			}
		}
		if !spaces[p.Namespace] {
			continue
		}
		if g := podspec.Group(p, appLabel); groups[g] {
			s.group[p] = g
			if p.DeletionTimestamp == nil {
				s.ofGroups = append(s.ofGroups, p)
				if p.Spec.NodeName != "" {
					s.running[g]++
				}
			} else if p.Spec.NodeName != "" {
				s.ending[g] = true
			}
		}
	}
	for _, m := range d.moves {
		if m.away() && !slices.ContainsFunc(s.ofGroups, func(p *v1.Pod) bool {
			return s.group[p] == m.group && p.Spec.NodeName == m.to && p.UID != m.moved.pod.UID && !known[p.UID]
		}) {
			addDemand(s.expected[m.to], m.moved.pod, 1)
		}
	}
	return s
}

// addDemand adds a pod's demand to a node's sum, if there is one.
func addDemand(sum map[string]int64, p *v1.Pod, count int64) {
	if sum == nil {
		return
	}
	for dim, n := range podspec.Demand(p) {
		sum[dim] += count * n
	}
}

// shortage returns why a pod cannot run on a node now.
func (s *podIndex) shortage(m *move, to *v1.Node) string {
	if to == nil {
		return "node " + m.to + " is gone"
	}
	if !podspec.NewSelector(m.moved.pod).Admits(to) {
		return "node " + m.to + " does not admit " + nameOf(m.moved.pod)
	}
	capacity := podspec.Amounts(to.Status.Allocatable)
	for dim, n := range podspec.Demand(m.moved.pod) {
		if capacity[dim]-s.used[m.to][dim]-s.expected[m.to][dim] < n {
			return fmt.Sprintf("node %s lacks %s for %s", m.to, dim, nameOf(m.moved.pod))
		}
	}
	return ""
}

// shortageOfAll simulates all moves of a drain, and returns why they fail.
func (s *podIndex) shortageOfAll(d *drain, nodes map[string]*v1.Node) string {
	then := podIndex{used: map[string]map[string]int64{}, expected: s.expected}
	for name, taken := range s.used {
		then.used[name] = maps.Clone(taken)
	}
	for _, m := range d.moves {
		to := nodes[m.to]
		if to == nil || to.Spec.Unschedulable || !nodeReady(to) {
			return "node " + m.to + " is gone, cordoned or not ready"
		}
		if short := then.shortage(m, to); short != "" {
			return short
		}
		addDemand(then.used[m.to], m.moved.pod, 1)
		addDemand(then.used[m.moved.pod.Spec.NodeName], m.moved.pod, -1)
	}
	return ""
}
