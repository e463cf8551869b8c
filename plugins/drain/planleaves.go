package drain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// planLeaves makes the plan of an object of goal Relief or Fit, and in mode Auto begins to carry it out: of Relief the
// first move, since use has changed once it is made. The moves are part of the status before the first pod is evicted.
func (c *controller) planLeaves(ctx context.Context, o *v1alpha1.Rebalance, s *parsedSpec, was *v1alpha1.RebalanceStatus, now time.Time) error {
	l, most, err := c.readLeaves(ctx, o, s, now)
	if err != nil {
		plans.WithLabelValues("unreadable").Inc()
		set(o, v1alpha1.ConditionPlanned, false, "Unreadable", err.Error())
		return c.write(ctx, o, was)
	}
	over := int32(l.search(most))
	plans.WithLabelValues("planned").Inc()
	plan := &v1alpha1.RebalancePlan{
		Time: metav1.NewMicroTime(now), Nodes: int32(len(l.nodes)), Moves: int32(len(l.moves)), Pods: int32(l.pods), Over: &over, Leaves: l.moves[:min(len(l.moves), maxEmptied)],
	}
	for _, list := range l.on {
		for _, p := range list {
			if l.stays(p) != "" {
				plan.Fixed++
			}
		}
	}
	text := l.text(s.goal, int(over))
	o.Status.Plan, o.Status.Today = plan, l.today
	set(o, v1alpha1.ConditionPlanned, true, "Planned", text)
	if was.Plan == nil && over > 0 || was.Plan != nil && (was.Plan.Moves != plan.Moves || was.Plan.Over == nil || *was.Plan.Over != over) {
		c.Recorder.Eventf(o, nil, v1.EventTypeNormal, "Planned", "Plan", "%s", bounded.Text(text))
	}
	c.setMetrics(o)
	var x *execution
	if s.auto() && len(l.moves) > 0 {
		list := l.moves
		if s.goal == v1alpha1.RebalanceRelief {
			list = list[:1]
		}
		x = c.prepare(ctx, o, now, func() (units []*drain, _ error) {
			for _, m := range list {
				pod := l.pod[m.Pod]
				units = append(units, &drain{node: m.From, keeps: true, inFlight: 1, moves: []*move{{moved: &movedPod{pod}, to: m.To, group: m.Workload, maxGrace: c.MaxGrace}}})
			}
			return units, nil
		})
		if len(x.drains) > 0 {
			o.Status.Today = slices.Concat(l.today, list)
		}
	}
	return c.begin(ctx, o, x, was)
}

// readLeaves reads the cluster, for Relief with its use, and the most moves that are allowed now.
func (c *controller) readLeaves(ctx context.Context, o *v1alpha1.Rebalance, s *parsedSpec, now time.Time) (l *leaves, most int, err error) {
	pods, nodes := c.Site.Pods(), c.Site.Nodes()
	l = newLeaves(pods, nodes, s.spec.NodeSelector, c.AppLabel, now)
	if s.goal == v1alpha1.RebalanceFit {
		l.request()
	} else {
		windows, err := c.uses(ctx, now)
		if err != nil {
			return nil, 0, fmt.Errorf("the use of pods cannot be read: %w", err)
		}
		l.measure(windows, float64(s.spec.ReliefPercent)/100)
	}
	var more func(*v1.Pod) string
	others := podspec.NewOthers(pods, nodes, c.AppLabel)
	l.stays = func(p *v1.Pod) string {
		why := podspec.Movable(p, c.MaxGrace, others)
		if n := l.groups[podspec.Group(p, c.AppLabel)]; why == "" && n < int(s.spec.MinReplicas) {
			why = fmt.Sprintf("its workload has %d of the %d pods that it should keep", n, s.spec.MinReplicas)
		}
		if why == "" && p.Spec.SchedulerName != c.Profile {
			why = "another scheduler places it: " + p.Spec.SchedulerName
		}
		if why == "" && more != nil {
			why = more(p)
		}
		return why
	}
	if s.goal == v1alpha1.RebalanceRelief && len(l.overfull()) == 0 {
		l.today = today(o.Status.Today, now)
		return l, 0, nil
	}
	if more, l.recent, err = c.notEvictable(ctx, s, nodes, pods); err != nil {
		return nil, 0, err
	}
	l.prefer = c.Holder.Prefer
	l.refusal = func(p *v1.Pod, to string) string {
		return c.Site.Refusal(ctx, []*v1.Pod{p}, kube.Place{Pod: p, Node: to})
	}
	l.paused = func(node string) bool {
		at, ok := c.gaveUpAt[node]
		return ok && !at.After(now) && now.Sub(at) < reliefPause
	}
	l.today = today(o.Status.Today, now)
	daily := s.search.Count
	if s.search.Share > 0 {
		daily = max(1, int(s.search.Share*float64(l.pods)))
	}
	most = min(max(0, daily), maxToday) - len(l.today)
	if s.auto() && s.goal == v1alpha1.RebalanceRelief {
		left, err := c.hourlyLeft(ctx, o.Name, c.perHour(o), now)
		if err != nil {
			return nil, 0, fmt.Errorf("the evictions of the last hour cannot be counted: %w", err)
		}
		most = min(most, left)
	}
	return l, most, nil
}

// text describes the plan.
func (l *leaves) text(goal v1alpha1.RebalanceGoal, over int) string {
	verb := "use"
	if goal == v1alpha1.RebalanceFit {
		verb = "request"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "On %d of %d nodes pods %s more than the node has. Moves: %d.", over, len(l.nodes), verb, len(l.moves))
	for _, m := range l.moves[:min(len(l.moves), maxNotes)] {
		fmt.Fprintf(&b, " %s moves from %s to %s.", m.Pod, m.From, m.To)
	}
	slices.Sort(l.notes)
	for _, text := range l.notes[:min(len(l.notes), maxNotes)] {
		b.WriteString(" " + strings.ToUpper(text[:1]) + text[1:] + ".")
	}
	if more := len(l.notes) - maxNotes; more > 0 {
		fmt.Fprintf(&b, " %d more nodes are left alone.", more)
	}
	return b.String()
}

// overtakes reports whether a plan is made although another one is carried out: relief does not wait until the end of
// an hour with the others.
func (s *parsedSpec) overtakes(x *execution) bool {
	return s.goal == v1alpha1.RebalanceRelief && x.waiting != "" && x.object.Spec.Goal != v1alpha1.RebalanceRelief
}

// goal is the goal of an execution, as a label of metrics.
func (x *execution) goal() string {
	return string(cmp.Or(x.object.Spec.Goal, v1alpha1.RebalanceEmptyNodes))
}

// endMoves ends a drain of a node that is not emptied.
func (c *controller) endMoves(x *execution, d *drain) {
	m := d.moves[0]
	if d.outcome == done {
		x.refusals = 0
		c.report(x, v1.EventTypeNormal, "Moved", "A pod moved from node %s to %s: its replacement %s is ready.", d.node, m.to, nameOf(m.moved.pod))
		return
	}
	x.givenUp++
	c.gaveUpAt[d.node] = c.clock.Now()
	c.report(x, v1.EventTypeWarning, "GivenUp", "%s does not move from node %s: %s.", nameOf(m.moved.pod), d.node, d.why)
	c.countRefusal(x, d, "pods")
}

// refund removes the moves of an execution that has ended from a status if their pods were not evicted.
func (x *execution) refund(o *v1alpha1.Rebalance) {
	if !x.finished {
		return
	}
	for _, d := range x.drains {
		for _, m := range d.moves {
			if d.keeps && !m.begun {
				o.Status.Today = slices.DeleteFunc(o.Status.Today, func(t v1alpha1.RebalanceMove) bool {
					return t.Pod == nameOf(m.moved.pod) && t.Time.Time.Truncate(time.Microsecond).Equal(x.start.Truncate(time.Microsecond))
				})
			}
		}
	}
}
