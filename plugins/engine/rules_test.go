package engine

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

func ruleFor(app string) v1alpha1.PlacementRuleSpec {
	return v1alpha1.PlacementRuleSpec{PodSet: picks(app), MaxPerNode: new(int32(1))}
}

func (l *lab) conflicts(rule string) int {
	l.Helper()
	return l.counter(l.metrics.conflict.WithLabelValues(rule))
}

// A pod that another scheduler placed against a rule is counted once, whether it is
// seen when it is bound or at the next decision.
func TestConflictsAreCountedOnce(t *testing.T) {
	setUp := func(t *testing.T) *lab {
		l := newLab(t)
		l.node("a", 8)
		l.node("b", 8)
		l.stand(pod("web-1", "web"), "a")
		l.SetRules([]*kube.Rule{rule(t, "one", ruleFor("web"))})
		return l
	}
	const event = "Warning RuleConflict Not placed by Sigma, and against the placement rule one: at most 1 of default/web on a node."

	t.Run("bound, then found", func(t *testing.T) {
		l := setUp(t)
		l.sync()
		foreign := l.stand(pod("web-2", "web"), "a")
		l.Bound(foreign)
		l.Bound(foreign)
		require.Equal(t, 1, l.conflicts("one"), "at once, without a decision of ours")
		require.Equal(t, map[string]int{"one": 1}, l.Conflicts())
		l.sync()
		l.Bound(foreign)
		l.sync()
		require.Equal(t, 1, l.conflicts("one"))
		require.Equal(t, map[string]int{"one": 1}, l.Conflicts(), "one node")
		require.Equal(t, []string{event}, l.told())
		l.leave(foreign)
		l.sync()
		require.Empty(t, l.Conflicts())
		require.Empty(t, l.reported)
	})
	t.Run("found, then bound", func(t *testing.T) {
		l := setUp(t)
		l.sync()
		foreign := l.stand(pod("web-2", "web"), "a")
		l.sync()
		l.Bound(foreign)
		require.Equal(t, 1, l.conflicts("one"))
		require.Equal(t, map[string]int{"one": 1}, l.Conflicts())
		require.Len(t, l.told(), 1)
	})
	t.Run("gone before it was found", func(t *testing.T) {
		l := setUp(t)
		l.sync()
		l.Bound(l.stand(pod("web-2", "web"), "a"))
		l.leave(pod("web-2", "web"))
		l.sync()
		require.Equal(t, map[string]int{"one": 1}, l.Conflicts())
		l.now = l.now.Add(time.Minute + 1)
		require.Empty(t, l.Conflicts())
		require.Empty(t, l.reported)
	})
	t.Run("there from the start", func(t *testing.T) {
		l := setUp(t)
		foreign := l.stand(pod("web-2", "web"), "a")
		l.Bound(foreign) // a start sees all pods
		l.sync()
		require.Zero(t, l.conflicts("one"), "who put it there is not known")
		require.Equal(t, map[string]int{"one": 1}, l.Conflicts())
	})
	t.Run("nothing against it", func(t *testing.T) {
		l := setUp(t)
		l.sync()
		l.Bound(l.stand(pod("web-2", "web"), "b"))
		l.Bound(l.stand(pod("db-1", "db"), "a"))
		l.Bound(l.stand(pod("web-3", "web", ofDaemonSet), "a"))
		l.Bound(l.stand(pod("web-4", "web", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }), "a"))
		l.sync()
		require.Zero(t, l.conflicts("one"))
		require.Empty(t, l.Conflicts())
		require.Empty(t, l.told())
	})
	t.Run("our own", func(t *testing.T) {
		l := setUp(t)
		l.SetPolicy(ledger.Primary, spreading())
		l.sync()
		ours := l.stand(pod("web-2", "web"), "b")
		l.Reserve(ours, "b", nil)
		l.Bound(ours)
		l.sync()
		require.Zero(t, l.conflicts("one"))
	})
	t.Run("by exclusion", func(t *testing.T) {
		l := setUp(t)
		l.SetRules([]*kube.Rule{rule(t, "apart", v1alpha1.PlacementRuleSpec{
			PodSet: picks("web"), Excludes: []v1alpha1.Exclusion{{PodSet: picks("db")}},
		})})
		l.sync()
		l.Bound(l.stand(pod("db-1", "db"), "a"))
		require.Equal(t, 1, l.conflicts("apart"))
		require.Equal(t, []string{"Warning RuleConflict Not placed by Sigma, and against the placement rule apart: default/web excludes default/db."}, l.told())
	})
	t.Run("no rule, no conflict", func(t *testing.T) {
		l := setUp(t)
		l.SetRules(nil)
		l.sync()
		l.Bound(l.stand(pod("web-2", "web"), "a"))
		l.sync()
		require.Empty(t, l.Conflicts())
	})
}

// Everything that comes in from informers and hints comes while cycles run. Run
// with the race detector; without it, the log still has to be right.
func TestConcurrency(t *testing.T) {
	l := newLab(t, func(o *Options) { o.Recorder, o.Now = nil, nil })
	for i := range 20 {
		l.node(fmt.Sprintf("n%02d", i), 8)
	}
	web := func(i int) *v1.Pod { return pod(fmt.Sprint("web-", i), fmt.Sprint("web", i%7)) }
	var stop atomic.Bool
	var group sync.WaitGroup
	meanwhile := func(f func(i int, d *rand.Rand)) {
		group.Go(func() {
			d := rand.New(rand.NewPCG(7, 7))
			for i := 0; !stop.Load(); i++ {
				f(i, d)
				time.Sleep(20 * time.Microsecond)
			}
		})
	}
	policies := []func(){ // what an informer's goroutine does
		func() { l.SetPolicy(ledger.Primary, spreading()) },
		func() { l.SetPolicy(ledger.Primary, shipped(t, "hand-k1")) },
		func() { l.SetPolicy(ledger.Canary, spreading(mode("canary", 50))) },
		func() { l.SetPolicy(ledger.Canary, nil) },
		func() { l.SetPolicy(ledger.Primary, nil) },
	}
	meanwhile(func(i int, _ *rand.Rand) { policies[i%len(policies)]() })
	rules := [][]*kube.Rule{{rule(t, "few", ruleFor("web1"))}, nil, {atMost(t, 2, "web2"), atMost(t, 3, "web3")}}
	meanwhile(func(i int, _ *rand.Rand) { l.SetRules(rules[i%3]) })
	meanwhile(func(i int, _ *rand.Rand) {
		if i%10 == 0 {
			l.SetDeclared(&kube.Declarations{})
		}
		l.Conflicts()
		l.Measure()
	})
	meanwhile(func(i int, d *rand.Rand) {
		p := web(d.IntN(300))
		p.Spec.NodeName = fmt.Sprintf("n%02d", i%20)
		l.Bound(p)
		l.Related(web(i), p)
		l.Spreads(web(i), p)
	})
	meanwhile(func(_ int, d *rand.Rand) { l.BindFailed(web(d.IntN(300))) })
	meanwhile(func(_ int, d *rand.Rand) { l.Deleted(web(d.IntN(300))) })
	cycles := 300
	if testing.Short() {
		cycles = 100
	}
	for i := range cycles {
		p := web(i)
		l.sync()
		check := l.Check(p)
		var group sync.WaitGroup
		for range 2 { // filters and preemption
			group.Go(func() {
				for n := range 20 {
					if check != nil {
						c := check.Clone()
						l.With(c, web(i+7), fmt.Sprintf("n%02d", n), 1)
						_ = c.Refusal(fmt.Sprintf("n%02d", n))
					}
				}
			})
		}
		group.Wait()
		l.place(p)
	}
	stop.Store(true)
	group.Wait()
	require.Equal(t, cycles, l.verify().Decisions)
	require.Zero(t, l.counter(l.metrics.restarts))
}
