package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// What is held is reserved with the next cycle, beside the pods that stand by then, and released with
// another. The log gives the same decisions.
func TestHold(t *testing.T) {
	l := newLab(t)
	require.False(t, l.Decides())
	l.node("a", 4)
	l.node("b", 4)
	l.sync()
	require.True(t, l.Decides())
	db := l.stand(pod("db-1", "db", asks("cpu", "2")), "a")
	l.stand(pod("web-1", "web", asks("cpu", "1")), "b") // no cycle knows it
	until := seconds(l.now.Add(time.Hour))
	h := l.Hold("Rebalance/tidy", until, []kube.Place{{Pod: db, Node: "b"}})
	require.False(t, l.Holds("b"), "it is not yet told to anybody")
	require.Equal(t, "b", l.place(pod("db-2", "db", asks("cpu", "2"))).Ranked[0].Node)
	h2 := l.Hold("Rebalance/tidy", until, []kube.Place{{Pod: db, Node: "a"}})
	l.Release(h2) // before it began
	l.sync()
	require.False(t, l.Holds("a"))
	h3 := l.Hold("Rebalance/tidy", until, []kube.Place{{Pod: db, Node: "a"}})
	l.Release(h)
	l.sync()
	require.True(t, l.Holds("a"))
	require.True(t, l.Engaged(podspec.Group(db, l.opt.AppLabel)))
	l.Release(h3)
	require.False(t, l.Engaged(podspec.Group(db, l.opt.AppLabel)), "at once")
	require.True(t, l.Holds("a"), "with the next cycle")
	l.sync()
	require.False(t, l.Holds("a"))
	require.Equal(t, 1, l.verify().Causes[ledger.CausePlanned])
}
