package stack

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A peerCase is a statement of a project's documents or tests, with the nodes and evictions that follow from it.
type peerCase struct {
	statement         string
	cores             []int64
	pods              []pods
	change            func(*Config)
	launched, evicted int
	hours             float64 // of nodes, ± a tenth; 0 = not compared
}

func try(t *testing.T, p func() Provisioner, cases []peerCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.statement, func(t *testing.T) {
			cfg := packs(p())
			if c.change != nil {
				c.change(&cfg)
			}
			r := run(t, onNodes(t, c.cores, c.pods...), cfg)
			assert.Equal(t, c.launched, r.Launched, "nodes launched")
			assert.Equal(t, c.evicted, r.Evicted[Consolidation], "pods evicted")
			if c.hours > 0 {
				assert.InDelta(t, c.hours, r.NodeHours, .1)
			}
		})
	}
}

// The statements are those of Karpenter's pages "Disruption" and "Scheduling" and of the names in its
// consolidation_test.go, emptiness_test.go and provisioning's suite. A run has four hours; what leaves does so after one.
func TestKarpenterAgrees(t *testing.T) {
	karpenter := func() Provisioner { return DefaultKarpenter() }
	of := func(c *Config) *Karpenter { return c.Provisioner.(*Karpenter) }
	try(t, karpenter, []peerCase{
		{statement: "can delete nodes", cores: []int64{4}, launched: 2, evicted: 1, hours: 2 + 3, pods: []pods{
			{count: 2, cpu: 3000, at: 10, leaves: hour}, {count: 2, cpu: 1000, at: 200},
		}},
		{statement: "can replace node with a cheaper one", cores: []int64{2, 16}, launched: 2, evicted: 1, pods: []pods{
			{count: 1, cpu: 14000, at: 10, leaves: hour}, {count: 1, cpu: 1000, at: 10},
		}},
		{statement: "won't replace node if no cheaper type holds its pods", cores: []int64{2, 16}, launched: 1, hours: 4, pods: []pods{
			{count: 1, cpu: 10000, at: 10, leaves: hour}, {count: 1, cpu: 3000, at: 10},
		}},
		{statement: "can merge 3 nodes into 1", cores: []int64{6, 4}, launched: 3 + 1, evicted: 3, pods: []pods{
			{count: 3, cpu: 4500, at: 10, leaves: hour, limit: 1}, {count: 3, cpu: 1200, at: 200},
		}, change: func(c *Config) { of(c).Budget = 1 }},
		{statement: "won't merge 2 nodes into 1 of the same type", cores: []int64{4}, launched: 2, evicted: 1, pods: []pods{
			{count: 2, cpu: 2500, at: 10, leaves: hour}, {count: 2, cpu: 1500, at: 200},
		}, change: func(c *Config) { of(c).Budget = 1 }},
		{statement: "can delete nodes, but not where anti-affinity forbids it", cores: []int64{4}, launched: 2, hours: 8, pods: []pods{
			{count: 2, cpu: 3000, at: 10, leaves: hour, limit: 1}, {count: 2, cpu: 1000, at: 200, limit: 1},
		}},
		{statement: "can delete empty nodes", cores: []int64{4}, launched: 3, hours: 3, pods: []pods{{count: 3, cpu: 4000, at: 10, leaves: hour}}},
		{
			statement: "should not delete empty nodes before consolidateAfter", cores: []int64{4}, launched: 1, hours: 3,
			pods: []pods{{count: 1, cpu: 4000, at: 10, leaves: hour}}, change: func(c *Config) { of(c).ConsolidateAfter = 2 * hour },
		},
		{
			statement: "budget: 10 % of the nodes, rounded up, at a time", cores: []int64{4}, launched: 21, hours: 76519. / hour,
			pods: []pods{{count: 21, cpu: 4000, at: 10, leaves: hour}},
		},
		{
			statement: "budget 0: no node is disrupted", cores: []int64{4}, launched: 2, hours: 8,
			pods: []pods{{count: 2, cpu: 4000, at: 10, leaves: hour}}, change: func(c *Config) { of(c).Budget = 0 },
		},
		{statement: "WhenEmpty: should not consolidate nodes with pods", cores: []int64{4}, launched: 2, hours: 8, pods: []pods{
			{count: 2, cpu: 3000, at: 10, leaves: hour}, {count: 2, cpu: 1000, at: 200},
		}, change: func(c *Config) { of(c).Underutilized = false }},
		{statement: "should schedule on the cheapest type that holds all pods of a claim", cores: []int64{2, 8}, launched: 1, hours: 4, pods: []pods{
			{count: 4, cpu: 2000, at: 10},
		}},
		{statement: "should not launch a second node for pods that fit on an in-flight node", cores: []int64{8}, launched: 1, hours: 4, pods: []pods{
			{count: 4, cpu: 1000, at: 10}, {count: 4, cpu: 1000, at: 40},
		}},
		{statement: "should launch nothing for a pod that fits no type", cores: []int64{8}, pods: []pods{{count: 1, cpu: 9000, at: 10}}},
	})
}

// The statements are those of cluster-autoscaler's FAQ ("How does scale-up work?", "How does scale-down work?", flags).
func TestAutoscalerAgrees(t *testing.T) {
	autoscaler := func() Provisioner { return DefaultAutoscaler() }
	try(t, autoscaler, []peerCase{
		{statement: "a node below 50 % whose pods fit elsewhere is removed after 10 minutes", cores: []int64{4}, launched: 2, evicted: 1, hours: 2 + 3 + 1./6, pods: []pods{
			{count: 2, cpu: 3000, at: 10, leaves: hour}, {count: 2, cpu: 1000, at: 200},
		}},
		{statement: "a node at 50 % stays", cores: []int64{4}, launched: 2, hours: 8, pods: []pods{
			{count: 2, cpu: 2000, at: 10, leaves: hour, limit: 1}, {count: 1, cpu: 2000, at: 200}, {count: 1, cpu: 2000, at: 300},
		}},
		{statement: "a node whose pods fit nowhere else stays", cores: []int64{4}, launched: 2, hours: 8, pods: []pods{
			{count: 2, cpu: 3000, at: 10, leaves: hour, limit: 1}, {count: 2, cpu: 1000, at: 200, limit: 1},
		}},
		{statement: "an empty node is removed after 10 minutes", cores: []int64{4}, launched: 1, hours: 1 + 1./6, pods: []pods{
			{count: 1, cpu: 1000, at: 10, leaves: hour},
		}},
		{statement: "no scale-down within 10 minutes of a scale-up", cores: []int64{4, 8}, launched: 2, hours: 1.311 + 2.858, pods: []pods{
			{count: 1, cpu: 4000, at: 10, leaves: hour}, {count: 1, cpu: 8000, at: hour + 500},
		}},
		{statement: "at most ten empty nodes at a time", cores: []int64{4}, launched: 11, hours: 11*(1+1./6) + 1./60, pods: []pods{
			{count: 11, cpu: 4000, at: 10, leaves: hour},
		}},
		{statement: "one node with pods at a time", cores: []int64{8}, launched: 3, evicted: 1 + 2, hours: 3 + 3 + 1./6 + 1./6 + 1./60, pods: []pods{
			{count: 3, cpu: 7000, at: 10, leaves: hour}, {count: 3, cpu: 1000, at: 200},
		}},
		{statement: "a node that is needed again begins anew", cores: []int64{4}, launched: 1, hours: 2.5, pods: []pods{
			{count: 1, cpu: 4000, at: 10, leaves: hour}, {count: 1, cpu: 4000, at: hour + 300, leaves: 2*hour + 1200},
		}},
		{statement: "expander least-waste: the group that leaves least free", cores: []int64{4, 12}, launched: 1, hours: 4, pods: []pods{
			{count: 4, cpu: 3000, at: 10},
		}},
		{statement: "pods that fit on upcoming nodes launch none", cores: []int64{8}, launched: 1, hours: 4, pods: []pods{
			{count: 4, cpu: 1000, at: 10}, {count: 4, cpu: 1000, at: 40},
		}},
		{statement: "no scale-up that helps no pod", cores: []int64{8}, pods: []pods{{count: 1, cpu: 9000, at: 10}}},
	})
}
