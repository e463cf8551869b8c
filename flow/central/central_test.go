package central

import (
	"errors"
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

// What central finds is nothing that agents refuse, also where most flows are shorter than that.
func TestLeast(t *testing.T) {
	s := newSite(t)
	spec := live()
	spec.Bands = 4
	p := s.policy("p", spec)
	n := s.node("node-1", p)
	for range 3 {
		var sizes []float64
		for range 400 {
			sizes = append(sizes, max(1, 300*math.Exp(2*s.rng.NormFloat64())))
		}
		s.says(n, .7, sizes...)
		s.step(time.Minute)
	}
	require.NotEmpty(t, p.Status.Thresholds, p.Status.Search)
	require.GreaterOrEqual(t, p.Status.Thresholds[0], int64(flow.LeastThreshold))
	require.NoError(t, flow.Thresholds(p.Status.Thresholds).ValidateFor(4))
}

// Another number of bands does not lift the guard on how far a threshold moves: the sizes changed before.
func TestOtherBands(t *testing.T) {
	s := newSite(t)
	p := s.policy("p", live())
	n := s.node("node-1", p)
	minute := func(scale float64) {
		s.says(n, .7, s.draw(500, scale)...)
		s.step(time.Minute)
	}
	s.step(time.Second)
	for range 3 {
		minute(1000)
	}
	for range 6 {
		minute(100_000)
	}
	require.Equal(t, 1, s.learners["p"].window.Changes())
	p.Generation, p.Spec.Bands, p.Spec.Thresholds = 2, 2, []int64{5_000_000}
	s.step(time.Second)
	require.Equal(t, []int64{5_000_000}, p.Status.Thresholds)
	p.Generation, p.Spec.Thresholds = 3, nil
	minute(100_000)
	require.Equal(t, []int64{20_000_000}, p.Status.Thresholds, p.Status.Search)
}

// While nothing is sought, nothing is kept for it.
func TestNothingPending(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.FlowPolicySpec){
		"disabled": func(s *v1alpha1.FlowPolicySpec) { s.Mode = v1alpha1.Disabled },
		"pinned":   func(s *v1alpha1.FlowPolicySpec) { s.Thresholds = []int64{5000, 6000} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			p := s.policy("p", live())
			change(&p.Spec)
			s.says(s.node("node-1", p), .5, 1000, 2000)
			s.step(time.Second)
			require.Equal(t, map[Verdict]int{Taken: 1}, s.Verdicts)
			l := s.learners["p"]
			require.Zero(t, l.pending.Flows())
			require.Zero(t, l.bits)
		})
	}
}

// Uplinks that sent nothing are not uplinks of which nothing was said.
func TestNoLoad(t *testing.T) {
	s := newSite(t)
	p := s.policy("p", live())
	n := s.node("node-1", p)
	s.step(time.Second)
	s.says(n, 0, s.draw(300, 1000)...)
	s.step(time.Minute)
	require.Equal(t, "the uplinks of the nodes have sent nothing", p.Status.Search)
	s.says(n, .5, 1000).Load = nil
	s.step(time.Minute)
	require.Equal(t, "no node has said the load of its uplink", p.Status.Search)
}

// A tunerOf fails for two bands.
type tunerOf struct{ tune.Tuner }

func (t tunerOf) Propose(s *flow.Sizes, load float64, bands int, present flow.Thresholds, seed uint64) (flow.Thresholds, error) {
	if bands == 2 {
		return nil, errors.New("no two")
	}
	return t.Tuner.Propose(s, load, bands, present, seed)
}

// What is wrong with one policy does not stop the others.
func TestOneFails(t *testing.T) {
	s := newSite(t)
	s.Tuner = tunerOf{tune.Tuner{Arrivals: 5000, Budget: 40}}
	spec := live()
	spec.Bands = 2
	for _, name := range []string{"bad", "worse"} {
		s.says(s.node("of-"+name, s.policy(name, spec)), .5, s.draw(300, 1000)...)
	}
	spec.Bands = 3
	s.says(s.node("of-good", s.policy("good", spec)), .5, s.draw(300, 1000)...)
	s.step(time.Second)
	changed, err := s.Step(s.now.Add(time.Minute), s.policies, s.nodes)
	require.ErrorContains(t, err, "FlowPolicy bad: no two")
	require.ErrorContains(t, err, "FlowPolicy worse: no two")
	var last *v1alpha1.FlowPolicy
	for _, p := range changed {
		if p.Name == "good" {
			last = p
		}
	}
	require.NotNil(t, last)
	require.Len(t, last.Status.Thresholds, 2, last.Status.Search)
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
		"more than a link":  {func(_ *site, n *v1alpha1.NodeFlows) { n.Status.Traffic.BitsPerSecond = 1.1e13 }, Malformed},
		"an infinite rate":  {func(_ *site, n *v1alpha1.NodeFlows) { n.Status.Traffic.BitsPerSecond = math.Inf(1) }, Malformed},
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

// The number of a sketch that was not taken makes none of those after it a replay.
func TestNumbers(t *testing.T) {
	s := newSite(t)
	n := s.node("node-1", s.policy("p", live()))
	s.says(n, .5, 1000)
	s.step(time.Second)
	s.says(n, .5, 1000)
	n.Status.Traffic.Number, n.Status.Traffic.Bytes = 1<<62, -1
	s.step(time.Second)
	s.says(n, .5, 1000).Number = 2
	s.step(time.Second)
	require.Equal(t, map[Verdict]int{Taken: 2, Malformed: 1}, s.Verdicts)
	s.says(n, .5, 1000).Number = 1<<62 + 1
	n.Status.Traffic.Until = metav1.NewTime(s.now.Add(time.Hour))
	s.step(time.Second)
	s.says(n, .5, 1000).Number = 2
	s.step(time.Second)
	require.Equal(t, map[Verdict]int{Taken: 2, Malformed: 1, Future: 1, Replayed: 1}, s.Verdicts)
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

	// No uplink carries more than all: one node that says so does not drown the others.
	p.Spec.Rate = nil
	s.learners["p"].load, s.learners["p"].bits = 0, 0
	s.says(a, .5, 1000)
	s.step(time.Second)
	*s.says(b, .5, 1000).Load = 1e300
	s.step(time.Second)
	require.InEpsilon(t, .75, l.load/l.bits, 1e-9)
}
