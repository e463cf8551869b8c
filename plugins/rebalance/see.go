package rebalance

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

// see gathers the observed state of the unit in progress.
func (c *controller) see(ctx context.Context, w *work, u *unit, pods []*v1.Pod, nodes map[string]*v1.Node) evidence {
	n := nodes[u.node]
	e := evidence{stop: strings.TrimSuffix(w.stop.message, "."), held: w.chain != nil, err: w.err}
	if n != nil {
		e.cordoned = ours(n, w.name)
		e.marked = e.cordoned && n.Annotations[emptiedAt] != ""
	}
	s := newScene(u, pods, c.AppLabel)
	s.others = podspec.NewOthers(pods, slices.Collect(maps.Values(nodes)), c.AppLabel)
	e.empty, e.stands = !s.occupied, map[types.UID]bool{}
	for _, m := range u.moves {
		p := s.byUID[m.item.pod.UID]
		e.stands[m.item.pod.UID] = p != nil && p.DeletionTimestamp == nil
	}
	for _, p := range s.ofGroups {
		if w.stood != nil && !w.stood[p.UID] && p.Spec.NodeName != "" && slices.ContainsFunc(u.moves, func(m *move) bool {
			return m.group == s.group[p] && m.to == p.Spec.NodeName
		}) {
			e.arrived = append(e.arrived, arrival{p, s.group[p], serves(p)})
		}
		if waits(p) && s.away[s.group[p]] && !s.ending[s.group[p]] {
			e.stranded = nameOf(p)
		}
	}
	for _, m := range u.moves {
		if m.away() && s.byUID[m.item.pod.UID] == nil && !s.ending[m.group] && !slices.ContainsFunc(s.ofGroups, func(p *v1.Pod) bool {
			return s.group[p] == m.group && !w.stood[p.UID] && !slices.ContainsFunc(u.moves, func(o *move) bool { return o.done && o.item.pod.UID == p.UID })
		}) {
			e.missing = nameOf(m.item.pod)
		}
	}
	stays := c.Site.Stays()
	e.blocked = func(m *move) string {
		switch short := s.lacks(m, nodes[m.to]); {
		case short != "":
			return short
		case stays(m.item.pod):
			return "a disruption budget keeps " + nameOf(m.item.pod)
		}
		return c.refusal(ctx, m)
	}
	e.lost = c.lost(ctx, w, u, n, s, nodes)
	return e
}

// refusal returns why the scheduler's filters refuse the replacement of a move's pod. A refusal holds for a while: the
// question costs as much as the cluster is large.
func (c *controller) refusal(ctx context.Context, m *move) string {
	if now := c.clock.Now(); m.unfit == "" || now.Before(m.asked) || now.Sub(m.asked) >= unfitFor {
		m.asked = now
		m.unfit = c.Site.Refusal(ctx, []*v1.Pod{m.item.pod}, kube.Place{Pod: m.item.pod, Node: m.to})
	}
	return m.unfit
}

// lost returns why the moves of a unit cannot be made any more.
func (c *controller) lost(ctx context.Context, w *work, u *unit, n *v1.Node, s *scene, nodes map[string]*v1.Node) string {
	switch {
	case n == nil:
		return "the node is gone"
	case !isReady(n):
		return "the node is not ready"
	case mustStay(n):
		return "an annotation forbids to remove the node"
	case n.Spec.Unschedulable && !ours(n, w.name):
		return "the node is cordoned by somebody else"
	case u.stage > starting && !n.Spec.Unschedulable:
		return "somebody has uncordoned the node"
	case s.stranger != "":
		return s.stranger + " has come to the node"
	}
	for _, m := range u.moves {
		if m.begun {
			continue
		}
		p := s.byUID[m.item.pod.UID]
		switch {
		case p == nil:
			return nameOf(m.item.pod) + " is gone"
		case podspec.Movable(p, c.MaxGrace, s.others) != "":
			return nameOf(p) + " must stay: " + podspec.Movable(p, c.MaxGrace, s.others)
		case p.Spec.SchedulerName != c.Profile:
			return nameOf(p) + " is of the scheduler " + p.Spec.SchedulerName
		case s.stand[m.group] < int(w.object.Spec.MinReplicas) && !s.away[m.group]:
			return fmt.Sprintf("%s is one of %d pods of its workload", nameOf(p), s.stand[m.group])
		}
		if u.stage < held && c.Holder.Engaged(m.group) {
			return "a plan or make-room moves pods of " + m.group
		}
	}
	if u.stage < held {
		if short := s.fits(u, nodes); short != "" || !u.since.IsZero() {
			return short
		}
		return c.refusals(ctx, u)
	}
	for _, m := range u.moves {
		if to := nodes[m.to]; !m.done && (to == nil || to.Spec.Unschedulable || !isReady(to)) {
			return "node " + m.to + " is gone, cordoned or not ready"
		}
	}
	return ""
}

// refusals runs the filters for all moves of a unit that has not begun, once all of its pods have left.
func (c *controller) refusals(ctx context.Context, u *unit) string {
	var leave []*v1.Pod
	var places []kube.Place
	for _, m := range u.moves {
		leave, places = append(leave, m.item.pod), append(places, kube.Place{Pod: m.item.pod, Node: m.to})
	}
	return c.Site.Refusal(ctx, leave, places...)
}

// A scene holds the pods of a cluster that concern a unit.
type scene struct {
	byUID    map[types.UID]*v1.Pod
	ofGroups []*v1.Pod // of the unit's groups
	group    map[*v1.Pod]string
	stand    map[string]int // pods by group
	away     map[string]bool
	ending   map[string]bool             // groups with a pod that has a node and is being deleted
	taken    map[string]map[string]int64 // by node that a pod will move to, and dimension
	due      map[string]map[string]int64 // of that, the part still to arrive: of moves begun and not finished
	occupied bool                        // an evictable pod is on the unit's node
	stranger string                      // a pod that the plan does not contain
	others   *podspec.Others             // constraints of pods on other pods
}

func newScene(u *unit, pods []*v1.Pod, appLabel string) *scene {
	s := &scene{byUID: map[types.UID]*v1.Pod{}, group: map[*v1.Pod]string{}, stand: map[string]int{}, away: map[string]bool{}, ending: map[string]bool{}, taken: map[string]map[string]int64{}, due: map[string]map[string]int64{}}
	groups, spaces, known := map[string]bool{}, map[string]bool{}, map[types.UID]bool{}
	for _, m := range u.moves {
		groups[m.group], spaces[m.item.pod.Namespace], known[m.item.pod.UID] = true, true, true
		s.away[m.group] = s.away[m.group] || m.away()
		s.taken[m.to], s.due[m.to] = map[string]int64{}, map[string]int64{}
	}
	for _, p := range pods {
		if podspec.Ended(p) {
			continue
		}
		s.byUID[p.UID] = p
		add(s.taken[p.Spec.NodeName], p, 1)
		if p.Spec.NodeName == u.node && podspec.Moves(p) {
			s.occupied = true
			if !known[p.UID] && p.DeletionTimestamp == nil {
				s.stranger = nameOf(p)
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
					s.stand[g]++
				}
			} else if p.Spec.NodeName != "" {
				s.ending[g] = true
			}
		}
	}
	for _, m := range u.moves {
		if m.away() && !slices.ContainsFunc(s.ofGroups, func(p *v1.Pod) bool {
			return s.group[p] == m.group && p.Spec.NodeName == m.to && p.UID != m.item.pod.UID && !known[p.UID]
		}) {
			add(s.due[m.to], m.item.pod, 1)
		}
	}
	return s
}

func serves(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(k v1.PodCondition) bool { return k.Type == v1.PodReady && k.Status == v1.ConditionTrue })
}

// add adds a pod's demand to a node's sum, if there is one.
func add(sum map[string]int64, p *v1.Pod, count int64) {
	if sum == nil {
		return
	}
	for dim, n := range podspec.Demand(p) {
		sum[dim] += count * n
	}
}

// lacks returns why a pod cannot run on a node now.
func (s *scene) lacks(m *move, to *v1.Node) string {
	if to == nil {
		return "node " + m.to + " is gone"
	}
	if !podspec.NewSelector(m.item.pod).Admits(to) {
		return "node " + m.to + " does not admit " + nameOf(m.item.pod)
	}
	capacity := podspec.Amounts(to.Status.Allocatable)
	for dim, n := range podspec.Demand(m.item.pod) {
		if capacity[dim]-s.taken[m.to][dim]-s.due[m.to][dim] < n {
			return fmt.Sprintf("node %s lacks %s for %s", m.to, dim, nameOf(m.item.pod))
		}
	}
	return ""
}

// fits simulates all moves of a unit, and returns why they fail.
func (s *scene) fits(u *unit, nodes map[string]*v1.Node) string {
	then := scene{taken: map[string]map[string]int64{}, due: s.due}
	for name, taken := range s.taken {
		then.taken[name] = maps.Clone(taken)
	}
	for _, m := range u.moves {
		to := nodes[m.to]
		if to == nil || to.Spec.Unschedulable || !isReady(to) {
			return "node " + m.to + " is gone, cordoned or not ready"
		}
		if short := then.lacks(m, to); short != "" {
			return short
		}
		add(then.taken[m.to], m.item.pod, 1)
		add(then.taken[m.item.pod.Spec.NodeName], m.item.pod, -1)
	}
	return ""
}
