package central

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/flow/tune"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A site is a central with its objects, as an API server would keep them.
type site struct {
	*testing.T
	Central
	now      time.Time
	policies []*v1alpha1.FlowPolicy
	nodes    []*v1alpha1.NodeFlows
	versions int
	rng      *rand.Rand
}

func newSite(t *testing.T) *site {
	return &site{T: t, Central: Central{Every: time.Minute, Tuner: tune.Tuner{Arrivals: 5000, Budget: 40}}, now: begin, rng: rand.New(rand.NewPCG(3, 4))}
}

func (s *site) policy(name string, spec v1alpha1.FlowPolicySpec) *v1alpha1.FlowPolicy {
	p := &v1alpha1.FlowPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1}, Spec: spec}
	s.policies = append(s.policies, p)
	return p
}

// node follows a policy, or none.
func (s *site) node(name string, p *v1alpha1.FlowPolicy) *v1alpha1.NodeFlows {
	n := &v1alpha1.NodeFlows{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	if p != nil {
		n.Status.Policy, n.Status.PolicyUID, n.Status.ObservedGeneration = p.Name, p.UID, p.Generation
	}
	s.nodes = append(s.nodes, n)
	s.heard(n)
	return n
}

func (s *site) heard(n *v1alpha1.NodeFlows) {
	s.versions++
	n.ResourceVersion = fmt.Sprint(s.versions)
	n.Status.At = metav1.NewTime(s.now)
}

// says has a node write the sizes of flows that it saw.
func (s *site) says(n *v1alpha1.NodeFlows, load float64, sizes ...float64) *v1alpha1.NodeTraffic {
	var sketch flow.Sketch
	for _, size := range sizes {
		require.NoError(s, sketch.Add(size))
	}
	number := int64(1)
	if n.Status.Traffic != nil {
		number = n.Status.Traffic.Number + 1
	}
	n.Status.Traffic = &v1alpha1.NodeTraffic{Number: number, Until: metav1.NewTime(s.now), BitsPerSecond: load * 1e9, Load: &load, First: int32(sketch.First), Counts: sketch.Counts}
	s.heard(n)
	return n.Status.Traffic
}

func shaping(n *v1alpha1.NodeFlows, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&n.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionShaping, Status: status, Reason: reason, Message: message})
}

// step steps at a later time, stores the answers and returns how many there were.
func (s *site) step(later time.Duration) int {
	s.Helper()
	s.now = s.now.Add(later)
	changed, err := s.Step(s.now, s.policies, s.nodes)
	require.NoError(s, err)
	for _, c := range changed {
		for i, p := range s.policies {
			if p.UID == c.UID {
				*s.policies[i] = *c
			}
		}
	}
	return len(changed)
}

// draw draws flows with sizes over five magnitudes around a scale, most of them small.
func (s *site) draw(n int, scale float64) (sizes []float64) {
	for range n {
		sizes = append(sizes, scale*math.Exp(11.5*math.Pow(s.rng.Float64(), 2)))
	}
	return sizes
}

func live() v1alpha1.FlowPolicySpec {
	return v1alpha1.FlowPolicySpec{Mode: v1alpha1.Live, Bands: 3, CanaryPercent: 10, FloorPercent: .1}
}

// Central finds thresholds from what the nodes see together, keeps them, and follows a change; another that takes over goes
// on from the status.
func TestFinds(t *testing.T) {
	s := newSite(t)
	p := s.policy("p", live())
	for i := range 5 {
		s.node(fmt.Sprint("node-", i), p)
	}
	minute := func(scale float64) {
		for i, n := range s.nodes {
			s.says(n, .5+.1*float64(i), s.draw(100, scale)...)
		}
		for range 60 {
			s.step(time.Second)
		}
	}
	s.step(time.Second)
	require.Empty(t, p.Status.Thresholds)
	require.Equal(t, "NoThresholds", meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionActive).Reason)
	require.EqualValues(t, 1, p.Status.ObservedGeneration)

	minute(1000)
	require.EqualValues(t, 1, p.Status.Sequence, p.Status.Search)
	first := flow.Thresholds(p.Status.Thresholds)
	require.NoError(t, first.Validate())
	require.Len(t, first, 2)
	for range 5 {
		minute(1000)
	}
	require.Equal(t, map[Verdict]int{Taken: 30}, s.Verdicts)
	require.Zero(t, p.Status.Nodes.Acknowledged)
	for _, n := range s.nodes {
		n.Status.Sequence = p.Status.Sequence
	}
	s.step(time.Second)
	require.EqualValues(t, 5, p.Status.Nodes.Acknowledged)
	settled := p.Status.Sequence

	// Another leader has no window, and keeps what is there.
	kept := p.Status.Thresholds
	s.Central = Central{Every: s.Every, Tuner: s.Tuner}
	for range 61 {
		s.step(time.Second)
	}
	require.Equal(t, kept, p.Status.Thresholds)
	require.Equal(t, settled, p.Status.Sequence)
	minute(1000)
	require.Contains(t, p.Status.Search, "held-back")

	for range 3 {
		minute(100_000)
	}
	require.Greater(t, p.Status.Sequence, settled)
	require.Greater(t, p.Status.Thresholds[0], 5*kept[0], "the sizes are a hundred times as large")

	// Another number of bands: none until some are found, which takes no new flows.
	p.Generation, p.Spec.Bands = 2, 2
	sequence := p.Status.Sequence
	s.step(time.Second)
	require.Empty(t, p.Status.Thresholds)
	minute(100_000)
	require.Len(t, p.Status.Thresholds, 1)
	require.Equal(t, sequence+2, p.Status.Sequence)

	// Thresholds of the spec come first, also those that somebody has written over by hand.
	p.Generation, p.Spec.Bands, p.Spec.Thresholds = 3, 3, []int64{5000, 6000}
	s.step(time.Second)
	require.Equal(t, []int64{5000, 6000}, p.Status.Thresholds)
	p.Status.Thresholds, p.Status.Sequence = []int64{1, 1}, 1
	s.step(time.Second)
	require.Equal(t, []int64{5000, 6000}, p.Status.Thresholds)
	require.EqualValues(t, 2, p.Status.Sequence)
	require.Zero(t, s.step(time.Second), "nothing is written twice")

	p.Spec.Thresholds, p.Spec.Mode = nil, v1alpha1.Disabled
	for range 3 {
		minute(1)
	}
	require.EqualValues(t, 2, p.Status.Sequence, "nothing is sought")
}

// Two kinds of nodes are no change in time: the window is of all nodes together.
func TestMixedNodes(t *testing.T) {
	s := newSite(t)
	p := s.policy("p", live())
	for i := range 4 {
		s.node(fmt.Sprint("node-", i), p)
	}
	for range 12 {
		for i, n := range s.nodes {
			s.says(n, .6, s.draw(250, math.Pow(10, float64(1+i)))...)
		}
		for range 6 {
			s.step(10 * time.Second)
		}
	}
	require.Zero(t, s.learners["p"].window.Changes())
	require.Len(t, s.learners["p"].window.Sizes(), flow.WindowSizes)
}

// What makes no sense, is replayed or of another time is counted once and moves nothing.
func TestVerdicts(t *testing.T) {
	nan := math.NaN()
	for name, tt := range map[string]struct {
		change func(s *site, n *v1alpha1.NodeFlows)
		want   Verdict
	}{
		"good": {func(*site, *v1alpha1.NodeFlows) {}, Taken},
		"a little ahead": {func(s *site, n *v1alpha1.NodeFlows) {
			n.Status.Traffic.Until = metav1.NewTime(s.now.Add(50 * time.Second))
		}, Taken},
		"of tomorrow": {func(s *site, n *v1alpha1.NodeFlows) {
			n.Status.Traffic.Until = metav1.NewTime(s.now.Add(24 * time.Hour))
		}, Future},
		"of yesterday": {func(s *site, n *v1alpha1.NodeFlows) {
			n.Status.Traffic.Until = metav1.NewTime(s.now.Add(-24 * time.Hour))
		}, Old},
		"a number before":   {func(_ *site, n *v1alpha1.NodeFlows) { n.Status.Traffic.Number = 1 }, Replayed},
		"negative counts":   {func(_ *site, n *v1alpha1.NodeFlows) { n.Status.Traffic.Counts[0] = -1 }, Malformed},
		"bins of no size":   {func(_ *site, n *v1alpha1.NodeFlows) { n.Status.Traffic.First = 400 }, Malformed},
		"below one byte":    {func(_ *site, n *v1alpha1.NodeFlows) { n.Status.Traffic.First = -8 }, Malformed},
		"negative bytes":    {func(_ *site, n *v1alpha1.NodeFlows) { n.Status.Traffic.Bytes = -1 }, Malformed},
		"no rate":           {func(_ *site, n *v1alpha1.NodeFlows) { n.Status.Traffic.BitsPerSecond = nan }, Malformed},
		"no load":           {func(_ *site, n *v1alpha1.NodeFlows) { n.Status.Traffic.Load = &nan }, Malformed},
		"of another policy": {func(_ *site, n *v1alpha1.NodeFlows) { n.Status.PolicyUID = "gone" }, Orphaned},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			p := s.policy("p", live())
			n := s.node("node-1", p)
			s.says(n, .5, 1000)
			s.says(n, .5, 1000)
			s.step(time.Second)
			require.Equal(t, map[Verdict]int{Taken: 1}, s.Verdicts)
			s.says(n, .5, 1000, 2000)
			tt.change(s, n)
			s.step(time.Second)
			s.step(time.Second)
			s.heard(n) // it says the same again, with something else
			s.step(time.Second)
			delete(s.Verdicts, Taken)
			taken := int64(1)
			if tt.want == Taken {
				s.Verdicts[Taken], taken = 1, 3
			}
			if tt.want == Replayed {
				require.Equal(t, 2, s.Verdicts[Replayed], "twice given, twice refused")
				s.Verdicts[Replayed] = 1
			}
			require.Equal(t, map[Verdict]int{tt.want: 1}, s.Verdicts)
			require.Equal(t, taken, s.learners["p"].pending.Flows())
		})
	}
}

// The load is that of the nodes that carry most, by the policy's rate where it has one.
func TestLoad(t *testing.T) {
	s := newSite(t)
	p := s.policy("p", live())
	a, b := s.node("a", p), s.node("b", p)
	s.says(a, .9, 1000)
	s.says(b, .1, 1000)
	s.step(time.Second)
	l := s.learners["p"]
	require.InEpsilon(t, .82, l.load/l.bits, 1e-9)
	rate := resource.MustParse("2G")
	p.Spec.Rate = &rate
	s.says(a, .9, 1000).Load = nil
	s.learners["p"].load, s.learners["p"].bits = 0, 0
	s.step(time.Second)
	require.InEpsilon(t, .45, l.load/l.bits, 1e-9)
}

// A policy says on how many nodes it is, or why not.
func TestConditions(t *testing.T) {
	s := newSite(t)
	spec := live()
	spec.Thresholds = []int64{1000, 2000}
	p := s.policy("p", spec)
	younger := s.policy("younger", live())
	is := func(of *v1alpha1.FlowPolicy, status metav1.ConditionStatus, reason, message string, want ...int32) {
		t.Helper()
		s.step(time.Second)
		c := meta.FindStatusCondition(of.Status.Conditions, v1alpha1.ConditionActive)
		require.Equal(t, reason, c.Reason, c.Message)
		require.Equal(t, status, c.Status)
		require.Contains(t, c.Message, message)
		require.Equal(t, want, []int32{of.Status.Nodes.Matching, of.Status.Nodes.Acknowledged, of.Status.Nodes.Ordered})
	}
	const no, yes = metav1.ConditionFalse, metav1.ConditionTrue
	is(p, no, "NoNodes", "no node that it selects has an agent", 0, 0, 0)
	a, b := s.node("a", p), s.node("b", p)
	s.node("c", nil)
	is(p, no, "Waiting", "no node has said yet", 2, 0, 0)
	a.Status.Sequence = 1
	shaping(a, yes, v1alpha1.ReasonOrdered, "")
	shaping(b, no, v1alpha1.ReasonForeignQdisc, "somebody has put fq there")
	is(p, yes, "Ordered", "1 of 2 nodes order their uplinks, by 1k/2k bytes; b: somebody has put fq there", 2, 1, 1)
	shaping(a, no, v1alpha1.ReasonForeignQdisc, "somebody has put fq there")
	is(p, no, "ForeignQdisc", "a: somebody has put fq there", 2, 1, 0)
	shaping(a, yes, v1alpha1.ReasonFailed, "a flow leaves a band after 10 bytes; no room")
	is(p, yes, "Ordered", "a: a flow leaves a band after 10 bytes; no room", 2, 1, 1)

	is(younger, no, "NoNodes", "", 0, 0, 0)
	a.Status.PassedOver, b.Status.PassedOver = []string{"younger"}, []string{"younger"}
	is(younger, no, "OlderPolicy", "a follows the older policy p and 1 more nodes follow older ones", 0, 0, 0)

	// Of another generation it is not acknowledged; of long ago it does not count.
	p.Generation = 2
	is(p, yes, "Ordered", "1 of 2", 2, 0, 1)
	s.now = s.now.Add(heard)
	s.heard(b)
	is(p, no, "ForeignQdisc", "b: somebody", 1, 0, 0)
	for _, mode := range []v1alpha1.Mode{v1alpha1.Observe, v1alpha1.Disabled} {
		p.Spec.Mode = mode
		is(p, no, string(mode), "mode "+string(mode)+" orders nothing", 1, 0, 0)
	}
	accepted := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionAccepted)
	require.Equal(t, yes, accepted.Status)
	p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"not a label": "x"}}
	s.step(time.Second)
	accepted = meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionAccepted)
	require.Equal(t, no, accepted.Status)
	require.Contains(t, accepted.Message, "spec.nodeSelector: ")
}

// A central that starts goes on from what nodes have, where the status is older than that.
func TestOlderStatus(t *testing.T) {
	s := newSite(t)
	p := s.policy("p", live())
	n := s.node("a", p)
	n.Status.Sequence, n.Status.Thresholds = 7, []int64{3000, 4000}
	p.Status.Sequence, p.Status.Thresholds = 2, []int64{1000, 2000}
	s.step(time.Second)
	require.EqualValues(t, 8, p.Status.Sequence)
	require.Equal(t, []int64{3000, 4000}, p.Status.Thresholds)
	n.Status.Sequence = math.MaxInt64
	require.Zero(t, s.step(time.Second), "a number that no central has reached")
}

// A canary is one node at least, and always the same.
func TestCanary(t *testing.T) {
	s := newSite(t)
	spec := live()
	spec.Mode, spec.CanaryPercent = v1alpha1.Canary, 1
	p := s.policy("p", spec)
	orders := func() (names []string) {
		s.step(time.Second)
		for _, n := range s.nodes {
			s.heard(n)
			if p.Orders(n.Name) {
				names = append(names, n.Name)
			}
		}
		return names
	}
	require.Empty(t, orders())
	for i := range 4 {
		s.node(fmt.Sprint("node-", i), p)
	}
	one := orders()
	require.Len(t, one, 1)
	require.Equal(t, p.Status.CanaryNode, one[0])
	require.Equal(t, one, orders())
	for i := range 400 {
		s.node(fmt.Sprint("more-", i), p)
	}
	require.Greater(t, len(orders()), 1)
	require.Empty(t, p.Status.CanaryNode)
}
