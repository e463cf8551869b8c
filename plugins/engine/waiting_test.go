package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// kept is the number of pods that the engine remembers although they stand nowhere.
func (l *lab) kept() int {
	l.lock.Lock()
	defer l.lock.Unlock()
	return max(len(l.tracked), l.state.ledger.Waiting())
}

// A pod may be deleted while its cycle runs. Nothing of it stays, and its end is in the log.
func TestDeletedBeforeItIsAskedAbout(t *testing.T) {
	l := newLab(t)
	l.node("a", 8)
	l.SetPolicy(ledger.Primary, shipped(t, "kubernetes-k0"))
	l.sync()
	for i := range 3 {
		ranked, bound := pod(fmt.Sprint("ranked-", i), "web"), pod(fmt.Sprint("bound-", i), "web")
		l.Deleted(ranked)
		l.rank(ranked)

		l.Deleted(bound)
		v := l.rank(bound)
		l.Reserve(bound, "a", v)
		l.now = l.now.Add(30 * time.Second) // then the binding fails
		l.BindFailed(bound)
	}
	l.sync()
	require.Zero(t, l.kept())
	require.Len(t, l.logged(ledger.KindRemove), 6)
	l.verify()
	require.LessOrEqual(t, len(l.graves.young)+len(l.graves.old), 6)

	// What is remembered of the deleted is bounded in time and number.
	for i := range 5 * maxGraves {
		l.Deleted(pod(fmt.Sprint("old-", i), "web"))
	}
	require.LessOrEqual(t, len(l.graves.young)+len(l.graves.old), 2*maxGraves)
}

// Callers of the extender may make up pods, whose deletion is never told.
func TestMadeUpPodsAreForgotten(t *testing.T) {
	l := newLab(t)
	l.node("a", 8)
	l.SetPolicy(ledger.Primary, shipped(t, "kubernetes-k0"))
	daemon := pod("daemon", "web", ofDaemonSet)
	l.rank(daemon)
	l.Reserve(pod("nowhere", "web"), "gone", nil)
	require.Zero(t, l.kept())

	for i := range maxWaiting + 300 {
		l.rank(pod(fmt.Sprint("made-up-", i), "web"))
		require.LessOrEqual(t, l.kept(), maxWaiting+1)
	}
	l.sync()
	require.LessOrEqual(t, l.kept(), maxWaiting)
	require.NotZero(t, l.counter(l.metrics.forgotten.WithLabelValues("number")))
	require.Equal(t, float64(l.kept()), l.gauge(l.metrics.waiting))
	require.NotNil(t, l.state.ledger.Pod(fmt.Sprint("made-up-", maxWaiting+299)), "the latest stay")

	l.now = l.now.Add(waitsFor - time.Minute)
	l.rank(pod("asked-again", "web"))
	l.now = l.now.Add(2 * time.Minute)
	l.sync()
	require.Equal(t, 1, l.kept())
	require.Equal(t, maxWaiting+300, l.counter(l.metrics.forgotten.WithLabelValues("number"))+l.counter(l.metrics.forgotten.WithLabelValues("age")))
	require.Len(t, l.logged(ledger.KindRemove), maxWaiting+300)
	l.place(pod("asked-again", "web"))
	l.verify()
}

// Apps are forgotten where no forecast comes, too.
func TestAppsAreForgottenWithoutForecast(t *testing.T) {
	l := newLab(t)
	l.node("a", 8)
	for i := range 100 {
		p := pod(fmt.Sprint("build-", i), fmt.Sprint("build-", i))
		l.place(p)
		l.leave(p)
	}
	l.sync()
	require.Equal(t, 100, l.state.ledger.AppCount())
	for range 61 {
		l.now = l.now.Add(time.Minute)
		l.sync()
	}
	require.Zero(t, l.state.ledger.AppCount())
	require.Zero(t, l.gauge(l.metrics.apps))
	l.verify()
}
