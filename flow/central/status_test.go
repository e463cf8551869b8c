package central

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
)

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
	shaping(a, no, v1alpha1.ReasonForeignQdisc, "somebody has put fq there")
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
	p.Spec.NodeSelector, p.Spec.NamespaceSelector = nil, p.Spec.NodeSelector
	s.step(time.Second)
	accepted = meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionAccepted)
	require.Equal(t, no, accepted.Status)
	require.Contains(t, accepted.Message, "spec.namespaceSelector: ")

	// A long message that is not of bytes alone stays what it is in the API server's JSON.
	for _, letters := range []string{"a", "aa"} {
		p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"x": letters + strings.Repeat("ü", 1024)}}
		s.step(time.Second)
		require.True(t, utf8.ValidString(meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionAccepted).Message))
	}
}

// A node that falls silent may be ordered on: it is no longer one that is ordered, and not one that is not.
func TestUnheard(t *testing.T) {
	s := newSite(t)
	spec := live()
	spec.Mode = v1alpha1.Disabled
	p := s.policy("p", spec)
	a, b := s.node("a", p), s.node("b", p)
	shaping(a, metav1.ConditionTrue, v1alpha1.ReasonOrdered, "")
	shaping(b, metav1.ConditionFalse, v1alpha1.ReasonMode, "")
	is := func(status metav1.ConditionStatus, reason, message string, want v1alpha1.FlowPolicyNodes) {
		t.Helper()
		s.step(time.Second)
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionActive)
		require.Equal(t, want, p.Status.Nodes)
		require.Equal(t, reason, c.Reason, c.Message)
		require.Equal(t, status, c.Status)
		require.Contains(t, c.Message, message)
	}
	is(metav1.ConditionTrue, "Ordered", "1 of 2", v1alpha1.FlowPolicyNodes{Matching: 2, Acknowledged: 2, Ordered: 1})
	s.now = s.now.Add(heard)
	silent := v1alpha1.FlowPolicyNodes{Unheard: 1}
	const still = "1 silent node was ordered when it was last heard of, and may still be: a"
	is(metav1.ConditionUnknown, "Unheard", still, silent)
	s.Central = Central{Every: s.Every, Tuner: s.Tuner}
	is(metav1.ConditionUnknown, "Unheard", still, silent) // another leader has not heard of it either
	s.heard(b)
	is(metav1.ConditionUnknown, "Unheard", still, v1alpha1.FlowPolicyNodes{Matching: 1, Acknowledged: 1, Unheard: 1})
	shaping(b, metav1.ConditionTrue, v1alpha1.ReasonOrdered, "")
	is(metav1.ConditionTrue, "Ordered", still, v1alpha1.FlowPolicyNodes{Matching: 1, Acknowledged: 1, Ordered: 1, Unheard: 1})
	s.nodes = s.nodes[1:]
	is(metav1.ConditionTrue, "Ordered", "1 of 1", v1alpha1.FlowPolicyNodes{Matching: 1, Acknowledged: 1, Ordered: 1})
}

// A node is heard of when it writes, whatever its clock says.
func TestClocks(t *testing.T) {
	for name, by := range map[string]time.Duration{"right": 0, "a day ahead": 24 * time.Hour, "ten minutes behind": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			p := s.policy("p", live())
			n := s.node("a", p)
			write := func() {
				s.heard(n)
				n.Status.At = metav1.NewTime(s.now.Add(by))
			}
			write()
			s.step(time.Second)
			write()
			s.step(time.Second)
			require.EqualValues(t, 1, p.Status.Nodes.Matching)
			s.step(heard)
			require.EqualValues(t, 1, p.Status.Nodes.Matching)
			s.step(time.Second)
			require.Zero(t, p.Status.Nodes.Matching)
		})
	}
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

// A node's number is taken, and its thresholds where most nodes have them and no agent refuses them.
func TestOneWord(t *testing.T) {
	was := []int64{10_000, 20_000}
	type node struct {
		sequence   int64
		thresholds []int64
	}
	for name, tt := range map[string]struct {
		nodes    []node
		sequence int64
		want     []int64
	}{
		"alone, what agents refuse": {[]node{{500, []int64{1, 2}}}, 501, was},
		"one of three":              {[]node{{3, was}, {500, []int64{30_000, 40_000}}, {3, was}}, 501, was},
		"one of two":                {[]node{{500, []int64{30_000, 40_000}}, {3, nil}}, 501, was},
		"further than others go":    {[]node{{3, was}, {3 + v1alpha1.FarAhead, was}}, 3, was},
		"as far as others go":       {[]node{{3, was}, {3 + v1alpha1.FarAhead/2, was}}, 4 + v1alpha1.FarAhead/2, was},
		"two of three":              {[]node{{7, []int64{30_000, 40_000}}, {6, []int64{30_000, 40_000}}, {8, []int64{50_000, 60_000}}}, 9, []int64{30_000, 40_000}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			p := s.policy("p", live())
			p.Status.Sequence, p.Status.Thresholds = 3, was
			for i, n := range tt.nodes {
				o := s.node(fmt.Sprint("node-", i), p)
				o.Status.Sequence, o.Status.Thresholds = n.sequence, n.thresholds
			}
			s.step(time.Second)
			require.Equal(t, tt.sequence, p.Status.Sequence)
			require.Equal(t, tt.want, p.Status.Thresholds)
		})
	}
}

// A sequence number in the status that no node can have is not gone on from: agents would refuse what comes after it.
func TestFarAhead(t *testing.T) {
	s := newSite(t)
	spec := live()
	spec.Thresholds = []int64{1000, 2000}
	p := s.policy("p", spec)
	n := s.node("a", p)
	n.Status.Sequence = 5
	p.Status.Sequence, p.Status.Thresholds = math.MaxInt64, spec.Thresholds
	s.step(time.Second)
	require.EqualValues(t, 6, p.Status.Sequence)
	n.Status.Sequence = 6
	require.Equal(t, 1, s.step(time.Second), "it is acknowledged")
	require.EqualValues(t, 6, p.Status.Sequence)
	s.nodes, p.Status.Sequence = nil, math.MaxInt64
	p.Spec.Thresholds = []int64{3000, 4000}
	s.step(time.Second)
	require.EqualValues(t, 1, p.Status.Sequence)
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
	s.now = s.now.Add(2 * heard)
	s.step(time.Second)
	require.Equal(t, one[0], p.Status.CanaryNode, "all are silent")
	for _, n := range s.nodes {
		if n.Name != one[0] {
			s.heard(n)
		}
	}
	require.Equal(t, one, orders(), "it alone is silent")
	first := s.nodes
	s.nodes = nil
	for _, n := range first {
		if n.Name != one[0] {
			s.nodes = append(s.nodes, n)
		}
	}
	other := orders()
	require.Len(t, other, 1, "it is gone")
	require.NotEqual(t, one, other)
	for i := range 400 {
		s.node(fmt.Sprint("more-", i), p)
	}
	in := orders()
	require.Greater(t, len(in), 1)
	require.Empty(t, p.Status.CanaryNode)

	s.step(time.Second)
	s.now = s.now.Add(2 * heard)
	for _, n := range s.nodes {
		if !slices.Contains(in, n.Name) {
			s.heard(n)
		}
	}
	require.Equal(t, in, orders(), "those in the share are silent, and may be ordered on")
	require.Empty(t, p.Status.CanaryNode)
}
