package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// No pod comes, and pods of a lost node are planned again within two seconds, and those of a
// cordoned one. The log and the status say so.
func TestPlannedAgainWhileIdle(t *testing.T) {
	inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
		s.apply(policies, "general", specOf(t, spreading()))
		s.apply(plans, "site", planSpec("Enabled", "web", map[string]int64{"b": 2, "c": 1}))
		for _, name := range []string{"a", "b", "c", "d"} {
			l.node(name, 3)
		}
		l.node("a", 2) // full
		require.True(t, watch(l))
		l.sync()
		v := l.place(pod("web-1", "web"))
		require.Equal(t, "b", v.choice)
		time.Sleep(time.Minute + 100*time.Millisecond) // between two reviews

		lost := time.Now()
		b := l.nodes["b"]
		delete(l.nodes, "b")
		delete(l.on, "b")
		l.dirty["b"] = true
		l.NodeChanged(b, nil)
		synctest.Wait()
		reserved := l.logged(ledger.KindReserve)
		last := reserved[len(reserved)-1]
		require.Equal(t, "c", last.Node)
		require.EqualValues(t, 2, last.Reserved.Pods, "the pod that had landed too")
		require.InDelta(t, seconds(lost), last.Time, .01, "at once")
		settle()
		require.Equal(t, "2", s.status(plans, "site")["replanned"])
		require.Equal(t, "0 of 3 pods landed as planned. 2 were planned again, on c (2).", s.message(plans, "site", "Active"))

		// A cordon, and then a Sync that finds the same.
		before := l.nodes["c"]
		after := before.DeepCopy()
		after.Spec.Unschedulable = true
		l.nodes["c"], l.dirty["c"] = after, true
		l.NodeChanged(before, after)
		time.Sleep(2 * time.Second)
		require.False(t, l.Holds("c"))
		require.True(t, l.Holds("d"))
		settle()
		require.Equal(t, "0 of 3 pods landed as planned. 3 were planned again, on d (3).", s.message(plans, "site", "Active"))
		require.Equal(t, "d", l.place(pod("web-2", "web")).choice)
		require.Equal(t, "d", l.place(pod("web-3", "web")).choice)
		l.verify()
	})
}

// However long a pod is between its ranking and its placement, no status enters anything: the
// log would say that it was placed by something else.
func TestNothingBetweenRankingAndPlacement(t *testing.T) {
	for name, end := range map[string]func(l *lab, v *Verdict){
		"placed": func(l *lab, v *Verdict) {
			p := pod("new", "other")
			l.Reserve(l.stand(p, v.choice), v.choice, v)
			require.Equal(l, v.choice, l.decisions()[0].Node)
		},
		"not bound":     func(l *lab, _ *Verdict) { l.BindFailed(pod("new", "other")) },
		"nobody tells":  func(l *lab, _ *Verdict) { l.Left(pod("new", "other")) },
		"another cycle": func(l *lab, _ *Verdict) { l.sync() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
				s.apply(policies, "general", specOf(t, spreading()))
				s.apply(plans, "site", planSpec("Enabled", "web", map[string]int64{"a": 4}))
				l.node("a", 4)
				l.node("b", 2)
				require.True(t, watch(l))
				l.sync()
				require.True(t, l.Holds("a"))
				v := l.Rank(t.Context(), pod("new", "other"), []string{"b"}) // a is reserved
				l.BindFailed(pod("before", "other"))                         // another one's binding
				s.remove(plans, "site")
				time.Sleep(time.Minute)
				require.True(t, l.Holds("a"))
				end(l, v)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.False(t, l.Holds("a"))
				l.verify()
			})
		})
	}
}

// The scheduler wakes pods by an informer of its own, which may be ahead of ours: a woken pod
// does not meet a plan that is gone.
func TestPlanChanged(t *testing.T) {
	inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
		l.PlanChanged(nil, nil) // there is no watcher
		site := s.apply(plans, "site", planSpec("Enabled", "web", map[string]int64{"a": 1}))
		l.node("a", 4)
		watch(l)
		l.sync()
		require.True(t, l.Holds("a"))
		l.PlanChanged(site, nil)
		l.sync()
		require.False(t, l.Holds("a"))
		l.PlanChanged(nil, site)
		l.sync()
		require.True(t, l.Holds("a"))
	})
}

// The cycle that finds a node gone places its pod where that is planned again.
func TestPlannedAgainInTheSameCycle(t *testing.T) {
	inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
		s.apply(policies, "general", specOf(t, spreading()))
		s.apply(plans, "site", planSpec("Enabled", "web", map[string]int64{"b": 2}))
		require.True(t, watch(l))
		l.sync()
		time.Sleep(reviewEvery / 2)
		delete(l.nodes, "b")
		l.dirty["b"] = true
		require.Equal(t, ledger.CausePlanned, l.place(pod("web-1", "web")).decision.Cause)
		l.verify()
	})
}
