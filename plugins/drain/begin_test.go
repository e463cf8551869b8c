package drain

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/engine"
)

// No more chains than a few are under way.
func TestMostChains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuckWorld(t, policy.RepairEnabled)
		for i := range maxChains {
			w.chains[types.UID(fmt.Sprint(i))] = &chain{EvictionChain: &engine.EvictionChain{}}
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
	for name, change := range map[string]func(*world, *v1.Pod){
		"never preempts": func(_ *world, p *v1.Pod) { p.Spec.PreemptionPolicy = new(v1.PreemptNever) },
		"nominated": func(w *world, p *v1.Pod) {
			p.Status.NominatedNodeName = "b"
			w.pods["web-1"].DeletionTimestamp = &metav1.Time{Time: time.Now()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := stuckWorld(t, policy.RepairEnabled)
				change(w, w.pods["large-1"])
				w.run(time.Second)
				require.Empty(t, w.evicted)
				w.requireNothingHeld()
			})
		})
	}
}

// A nomination that is left over, of a chain that ended with its scheduler, keeps no pod from another chain.
func TestNominationLeftOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuckWorld(t, policy.RepairEnabled)
		w.pods["large-1"].Status.NominatedNodeName = "b"
		w.run(time.Minute)
		require.Equal(t, []string{"a"}, w.where("large-1"))
		w.requireNothingHeld()
	})
}
