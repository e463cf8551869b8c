package engine

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack/packtest"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A cluster that builds software: a pod a second, of ever new apps. Pods end, are deleted
// before they are asked about, are never heard of again, or fail to bind.
func TestSoak(t *testing.T) {
	l := newLab(t, func(o *Options) { o.DecisionLog = "" })
	for i := range 20 {
		l.node(fmt.Sprint("node-", i), 32)
	}
	l.SetPolicy(ledger.Primary, shipped(t, "kubernetes-k0"))
	l.SetRules(append(l.state.cluster.Rules(), atMost(t, 8, "build-7")))
	soak := packtest.NewSoak(t, "engine", 20_000)
	var standing []*v1.Pod
	for i, more := 0, true; more; i++ {
		p := pod(fmt.Sprint("pod-", i), fmt.Sprint("build-", i/8))
		l.now = l.now.Add(time.Second)
		switch i % 16 {
		case 3:
			l.Deleted(p)
			l.rank(p)
		case 5:
			l.rank(p)
		case 7:
			l.Reserve(p, "node-1", l.rank(p))
			l.BindFailed(p)
			l.Deleted(p)
		default:
			l.place(p)
			standing = append(standing, p)
		}
		for range 3 { // asked, reserved, bound
			more = soak.Event() && more
		}
		if len(standing) > 200 {
			l.leave(standing[0])
			standing = standing[1:]
			more = soak.Event() && more
		}
		l.told()
	}
	soak.Flat()
}
