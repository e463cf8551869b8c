package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

func in(namespace string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Namespace = namespace }
}

// Pods of tenant a use up the events of their namespace. Those of tenant b have theirs.
func TestTwoTenantsShareEvents(t *testing.T) {
	l := two(t)
	small := []func(*v1.Pod){asks("cpu", "1m"), asks("memory", "1")}
	for i := range 200 {
		l.place(pod(fmt.Sprint("a", i), "web", append(small, in("a"))...))
	}
	require.Len(t, l.told(), eventBurst)
	l.place(pod("b", "web", append(small, in("b"))...))
	told := l.told()
	require.Len(t, told, 1)
	require.Contains(t, told[0], "PolicyFallback")

	for i := range 2 * mostLoud { // not more than that of all
		for k := range 2 * eventBurst {
			l.place(pod(fmt.Sprint("n", i, "-", k), "web", append(small, in(fmt.Sprint("n", i)))...))
		}
	}
	require.Len(t, l.told(), mostLoud*eventBurst-eventBurst-1)
}

// More pods of tenant a wait than are remembered. Those of tenant b are not forgotten for that, though they were asked about first.
func TestTwoTenantsShareWaiting(t *testing.T) {
	l := newLab(t)
	l.node("a", 8)
	l.SetPolicy(ledger.Primary, shipped(t, "kubernetes-k0"))
	const ofB = 20
	for i := range ofB {
		l.rank(pod(fmt.Sprint("b-", i), "web", in("b")))
	}
	for i := range maxWaiting + 300 {
		if i%100 == 0 {
			l.now = l.now.Add(time.Second)
		}
		l.Rank(t.Context(), pod(fmt.Sprint("a-", i), "web", in("a")), []string{"a"})
	}
	l.sync()
	left := map[string]int{}
	for p := range l.state.ledger.Pods() {
		left[p.UID()[:1]]++
	}
	require.Equal(t, ofB, left["b"])
	require.LessOrEqual(t, left["a"]+left["b"], maxWaiting*7/8)
	require.Greater(t, left["a"], maxWaiting*3/4)
}

func TestMostOfEach(t *testing.T) {
	for _, tt := range []struct {
		waits map[string]int
		all   int
		want  int
	}{
		{map[string]int{"a": 100, "b": 1}, 50, 49},
		{map[string]int{"a": 100, "b": 100}, 50, 25},
		{map[string]int{"a": 100, "b": 100, "c": 10}, 50, 20},
		{map[string]int{"a": 3, "b": 3, "c": 3}, 2, 0},
	} {
		require.Equal(t, tt.want, mostOfEach(tt.waits, tt.all), fmt.Sprint(tt.waits))
	}
}
