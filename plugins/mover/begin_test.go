package mover

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/engine"
)

// No more chains than a few are under way.
func TestMostChains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuck(t, policy.RepairEnabled)
		for i := range mostChains {
			w.chains[types.UID(fmt.Sprint(i))] = &chain{Rescue: &engine.Rescue{}}
		}
		w.run(time.Second)
		require.Empty(t, w.evicted)
		delete(w.chains, "0")
		w.Activate(w.pods["large-1"])
		w.run(time.Second)
		require.Len(t, w.evicted, 1)
		clear(w.chains)
	})
}

// A pod that must not preempt, and one that preemption has made room for, move nobody.
func TestNoChainFor(t *testing.T) {
	for name, change := range map[string]func(*v1.Pod){
		"never preempts": func(p *v1.Pod) { p.Spec.PreemptionPolicy = new(v1.PreemptNever) },
		"nominated":      func(p *v1.Pod) { p.Status.NominatedNodeName = "b" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := stuck(t, policy.RepairEnabled)
				change(w.pods["large-1"])
				w.run(time.Second)
				require.Empty(t, w.evicted)
				w.requireNothingHeld()
			})
		})
	}
}
