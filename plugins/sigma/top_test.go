package sigma

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	tf "k8s.io/kubernetes/pkg/scheduler/testing/framework"

	"github.com/sigma-scheduler/sigma/plugins/apis/config"
)

// TestMostRanked: only where no other score can decide are two nodes enough.
func TestMostRanked(t *testing.T) {
	filters, scores := &tf.FakeExtender{}, &tf.FakeExtender{Prioritizers: []tf.PriorityConfig{{}}}
	for _, c := range []struct {
		mapping     string
		own, others int32
		extender    fwk.Extender
		want        int
	}{
		{config.MappingRank, 1, 0, filters, 2},
		{config.MappingRank, 2000, 13, filters, 2}, // 13 · 100 < 2000
		{config.MappingRank, 1300, 13, filters, 100},
		{config.MappingRank, 1, 1, filters, 100},
		{config.MappingRank, 2000, 13, scores, 100},
		{config.MappingLinear, 1, 0, filters, 100},
	} {
		scorers := []schedulerconfig.Plugin{{Name: "Other", Weight: c.others}, {Name: Name, Weight: c.own}}
		require.Equal(t, c.want, mostRanked(c.mapping, scorers, []fwk.Extender{c.extender}), "%+v", c)
	}
	require.Equal(t, 2, newStage(t, nil).top(), "Sigma is the only one that scores")
}

// TestTopDecides: the node that gets a pod does not depend on the number of ranked nodes.
func TestTopDecides(t *testing.T) {
	d := rand.New(rand.NewPCG(2, 9))
	for seed, policy := range []string{"kubernetes-k0", "large-k1", "kubernetes-k0-fixed"} {
		s := newStage(t, func(a *config.SigmaArgs) { a.Fleet = []string{config.FleetOpen, config.FleetFixed}[seed%2] })
		s.town(uint64(seed), 40, 60)
		s.decideBy(shipped(t, policy))
		for i := range 30 {
			p := pod(fmt.Sprint("new", i), fmt.Sprint("app", d.IntN(8))).Obj()
			best := map[string]bool{}
			for _, top := range []int{100, 2} {
				s.top = func() int { return top }
				c := s.filter(p)
				s.score(c, p)
				require.Greater(t, len(c.feasible), 2)
				best[c.best()] = true
				if top == 2 {
					s.assume(c, p, c.best())
				}
			}
			require.Len(t, best, 1, "%s, pod %d", policy, i)
		}
		require.Equal(t, 30, s.verify().Agreed)
	}
}
