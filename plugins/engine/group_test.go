package engine

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// The cycle of a pod group tries its pods, takes all of that back, and reserves them
// again: on the same nodes, or, of several trials, on those of an earlier one.
func TestReservedAgain(t *testing.T) {
	l := two(t)
	l.SetPolicy(ledger.Primary, spreading())
	trial := func(node string, pods ...*v1.Pod) (made []*Verdict) {
		for _, p := range pods {
			v := l.rank(p)
			l.Reserve(p, node, v)
			made = append(made, v)
		}
		for _, p := range slices.Backward(pods) {
			l.BindFailed(p)
		}
		return made
	}
	one, other := pod("p1", "web"), pod("p2", "web")
	first := trial("a", one, other)
	trial("b", one, other)
	l.Reserve(l.stand(one, "a"), "a", first[0]) // of the trial before
	l.Reserve(l.stand(other, "b"), "b", nil)    // of the last trial
	l.Deleted(other)                            // it counts until the scheduler forgets it
	l.sync()

	made := l.decisions()
	require.Len(t, made, 5)
	require.Equal(t, []string{"p1", "a", ledger.CauseNominated}, []string{made[4].UID, made[4].Node, made[4].Cause})
	var failed []string
	for _, f := range l.logged(ledger.KindFailed) {
		failed = append(failed, f.UID)
	}
	require.Equal(t, []string{"p2", "p1", "p1"}, failed, "of the first trial, and one pod of the second")
	require.Empty(t, l.logged(ledger.KindRemove))
	for name, node := range map[string]string{"p1": "a", "p2": "b"} {
		require.Equal(t, node, l.state.ledger.Pod(name).Node().Name())
	}
}
