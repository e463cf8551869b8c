package drain

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/evict"
)

// inTwo has three nodes. large, with 4 cores, fits once q and r have moved from b to a and c.
func inTwo(t *testing.T) *world {
	w := newWorld(t, policy.RepairEnabled)
	w.nodes["a"], w.nodes["b"], w.nodes["c"] = nil, nil, nil
	w.add("p-1", "p", "2", "a") // 2 free
	w.add("q-1", "q", "1500m", "b")
	w.add("r-1", "r", "1500m", "b") // 1 free
	w.add("s-1", "s", "2500m", "c") // 1.5 free
	w.staying["p-1"], w.staying["s-1"] = true, true
	w.add("large-1", "large", "4", "")
	return w
}

// A chain of two: where the second eviction is refused, the first pod stands as well as before.
func TestSecondMoveRefused(t *testing.T) {
	for _, refused := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := inTwo(t)
			if refused {
				w.most = 1
			}
			w.run(3 * time.Minute)
			if refused {
				require.Len(t, w.evicted, 1)
				require.Equal(t, []string{""}, w.where("large-1"))
			} else {
				require.ElementsMatch(t, []string{"q-1", "r-1"}, w.evicted)
				require.Equal(t, []string{"b"}, w.where("large-1"))
			}
			for name, p := range w.pods {
				require.Equal(t, name == "large-1" && refused, p.Spec.NodeName == "", name)
			}
			w.requireNothingHeld()
		})
	}
}

// What changes between two evictions is heeded before the second.
func TestSecondMoveIsNotMade(t *testing.T) {
	for name, meddle := range map[string]func(w *world, other string){
		"a budget": func(w *world, other string) { w.staying[other] = true },
		"it must stay": func(w *world, other string) {
			w.pods[other].Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
		},
		"it is gone":            func(w *world, other string) { delete(w.pods, other) },
		"repair is disabled":    func(w *world, _ string) { w.set(policy.RepairDisabled) },
		"the pod does not wait": func(w *world, _ string) { w.pods["large-1"].DeletionTimestamp = &metav1.Time{Time: time.Now()} },
		"the pod stands elsewhere": func(w *world, _ string) {
			p := w.pods["large-1"].DeepCopy()
			p.Spec.NodeName = "a"
			w.pods["large-1"] = p
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := inTwo(t)
				w.cycle(w.pods["large-1"])
				synctest.Wait() // the first pod is evicted
				require.Len(t, w.evicted, 1)
				other := map[string]string{"q-1": "r-1", "r-1": "q-1"}[w.evicted[0]]
				w.mu.Lock()
				meddle(w, other)
				w.mu.Unlock()
				w.run(20 * time.Second)
				require.Len(t, w.evicted, 1)
				require.Empty(t, w.chains)
			})
		})
	}
}

// counted returns the value of a counter with a label outcome, of all profiles.
func counted(t *testing.T, name, outcome string) (sum float64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetName() == "outcome" && l.GetValue() == outcome {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

// A limit ends a chain, even one that soon allows the eviction, and counts one refused move. The workload is left alone.
func TestLimitEndsChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuckWorld(t, policy.RepairEnabled)
		w.nodes["c"] = nil
		w.add("db-2", "db", "2", "c")
		w.add("full-c", "full", "2", "c")
		w.staying["db-2"], w.staying["full-c"] = true, true
		asked := 0
		w.asked = func() { asked++ }
		w.refuses["db-1"] = &evict.LimitError{Limit: "workload db", Why: "1 of 2 replicas are ready", Until: time.Now().Add(5 * time.Second)}
		moves, chains := counted(t, "sigma_repair_moves_total", refused), counted(t, "sigma_repair_chains_ended_total", refused)
		w.run(3 * time.Second)
		require.Empty(t, w.chains)
		require.InDelta(t, moves+1, counted(t, "sigma_repair_moves_total", refused), 0)
		require.InDelta(t, chains+1, counted(t, "sigma_repair_chains_ended_total", refused), 0)
		w.run(9 * time.Minute)
		require.Equal(t, 1, asked)
		w.requireNothingHeld()
	})
}

// A scheduler that stops while an eviction is refused leaves no gap: the pod stands.
func TestStopAtRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuckWorld(t, policy.RepairEnabled)
		w.asked = w.stop
		w.refuses["db-1"] = errors.New("context canceled")
		before := counted(t, "sigma_repair_chains_ended_total", stopped)
		w.cycle(w.pods["large-1"])
		w.Wait()
		require.Empty(t, w.chains)
		require.Empty(t, w.gaps)
		require.InDelta(t, before+1, counted(t, "sigma_repair_chains_ended_total", stopped), 0)
		w.requireNothingHeld()
	})
}

// A replacement whose move is done may itself be replaced: the chain goes on.
func TestReplacementIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inTwo(t)
		w.dies = 10 * time.Second
		w.run(8 * time.Second)
		require.Len(t, w.evicted, 2)
		c := w.chains["large-1"]
		require.True(t, c.moves[0].done)
		app, node := w.evicted[0][:1], c.moves[0].to
		w.remove(c.moves[0].moved.pod.Name)
		w.add("again-1", app, "1500m", node)
		w.sync()
		w.run(time.Minute)
		require.Equal(t, []string{"b"}, w.where("large-1"))
		w.requireNothingHeld()
	})
}

// Where a pod takes the place of one that ends late, the waiting pod's cycle shows that it has ended.
func TestPlaceIsOccupied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, policy.RepairEnabled)
		w.nodes["a"], w.nodes["b"], w.nodes["c"] = nil, nil, nil
		w.add("p-1", "p", "2500m", "a")
		w.add("q-1", "q", "1200m", "a") // to c
		w.add("r-1", "r", "1500m", "b") // to a
		w.add("t-1", "t", "1", "b")
		w.add("s-1", "s", "2800m", "c")
		w.staying["p-1"], w.staying["t-1"], w.staying["s-1"] = true, true, true
		w.dies = 20 * time.Second
		w.add("large-1", "large", "3", "")
		w.run(15 * time.Second)
		require.Equal(t, []string{"q-1"}, w.evicted)
		w.run(time.Minute)
		require.Equal(t, []string{"q-1", "r-1"}, w.evicted)
		require.Equal(t, []string{"b"}, w.where("large-1"))
		w.requireNothingHeld()
	})
}

// A pod that runs on though its eviction was granted ends the chain as soon as one whose eviction's answer was lost.
func TestGrantedEvictionDoesNotHappen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuckWorld(t, policy.RepairEnabled)
		w.idle = true
		w.run(lostAnswerTimeout - time.Second)
		require.Len(t, w.chains, 1)
		w.run(3 * time.Second)
		require.Empty(t, w.chains)
		w.requireNothingHeld()
	})
}

// A chain that is to end keeps no reservation that serves nothing, and counts how its moves and it ended.
func TestReservationsEnd(t *testing.T) {
	for _, tt := range []struct {
		name        string
		meddle      func(w *world, app, to string)
		most        time.Duration
		move, chain string // outcomes
	}{
		{"the pod is gone, and the place is lost", func(w *world, _, to string) {
			w.remove("large-1")
			w.add("foreign-1", "foreign", "2", to)
			w.sync()
		}, 3 * time.Second, late, notNeeded},
		{"the pod is gone, and the replacement is in its place, not ready", func(w *world, app, to string) {
			w.unready(w.add("new-1", app, "1500m", to))
			w.sync()
			w.remove("large-1")
		}, 3 * time.Second, done, notNeeded},
		{"the pod is gone, and no replacement is made", func(w *world, _, _ string) {
			w.remove("large-1")
		}, missingTimeout + 3*time.Second, late, late},
		{"the replacement is ready elsewhere", func(w *world, app, _ string) {
			w.nodes["d"] = nil
			w.add("new-1", app, "1500m", "d")
			w.sync()
		}, 3 * time.Second, late, lost},
		{"the replacement is never ready", func(w *world, app, to string) {
			w.unready(w.add("new-1", app, "1500m", to), v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionFalse})
			w.sync()
		}, 30*time.Second + replacementTimeout, done, late},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := inTwo(t)
				w.barren = true
				w.run(10 * time.Second)
				require.Len(t, w.evicted, 1)
				moves, chains := counted(t, "sigma_repair_moves_total", tt.move), counted(t, "sigma_repair_chains_ended_total", tt.chain)
				tt.meddle(w, w.evicted[0][:1], w.chains["large-1"].Moves[0].To)
				begin := time.Now()
				synctest.Wait()
				for len(w.chains) > 0 && time.Since(begin) < time.Hour {
					w.run(time.Second)
				}
				require.LessOrEqual(t, time.Since(begin), tt.most)
				require.InDelta(t, moves+1, counted(t, "sigma_repair_moves_total", tt.move), 0)
				require.InDelta(t, chains+1, counted(t, "sigma_repair_chains_ended_total", tt.chain), 0)
				w.requireNothingHeld()
			})
		})
	}
}
