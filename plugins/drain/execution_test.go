package drain

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

func TestCarriedOut(t *testing.T) {
	inCluster(t, func(c *cluster) {
		away := 0
		c.onEvict = func() {
			for _, p := range c.pods {
				if p.DeletionTimestamp == nil && !podspec.Ready(p) {
					away++
				}
			}
			require.Equal(c, 1, away, "one is away at a time")
			away = 0
		}
		w := c.begin()
		require.Len(c, w.drains, 3)
		planned := map[string]int{} // by node
		for _, p := range c.pods {
			planned[p.Spec.NodeName]++
		}
		for _, u := range w.drains {
			for _, m := range u.moves {
				planned[m.to]++
				planned[m.moved.pod.Spec.NodeName]--
			}
		}
		c.run(5 * time.Minute)
		require.True(c, w.finished)
		require.Equal(c, []int32{3, 6, 0}, []int32{w.freed, w.moved, w.givenUp})
		require.Len(c, c.evicted, 6)
		cordons := c.cordons()
		require.Len(c, cordons, 3)
		stand := map[string]int{}
		for _, p := range c.pods {
			stand[p.Spec.NodeName]++
		}
		for name, n := range planned {
			require.Equal(c, n, stand[name], name)
		}
		c.setProgress(c.object)
		require.Equal(c, "Done", conditionOf(c.object, v1alpha1.ConditionProgressing).Reason)
		require.Equal(c, metav1.ConditionFalse, conditionOf(c.object, v1alpha1.ConditionStopped).Status)
		c.run(emptyTTL) // nobody removes them
		require.Empty(c, c.cordons())
		c.requireAllStand(12)
	})
}

func conditionOf(o *v1alpha1.Rebalance, kind string) metav1.Condition {
	for _, k := range o.Status.Conditions {
		if k.Type == kind {
			return k
		}
	}
	return metav1.Condition{}
}

// Whatever goes wrong, no node stays cordoned that is not empty, nothing stays reserved, and no pod is
// lost.
func TestGoesWrong(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(c *cluster)
		second func(c *cluster) // with the first eviction
		freed  int32
		stop   string
		pods   int
		most   int // evictions
	}{
		{"a right is missing", func(c *cluster) { c.lacks = "patch nodes" }, nil, 0, "NoRights", 12, 0},
		{"all evictions are refused", func(c *cluster) {
			for i := range 6 {
				c.refuses[fmt.Sprint("w", i)] = errors.New("429")
			}
		}, nil, 0, "Refused", 12, 0},
		{"a replacement never comes", func(c *cluster) { c.barren = true }, nil, 0, "", 9, 3},
		{"a pod waits", func(c *cluster) {}, func(c *cluster) {
			p := c.add("xl")
			p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = apiresource.MustParse("4")
		}, 0, "PodsWait", 13, 1},
		{"it is suspended", nil, func(c *cluster) {
			o := c.object.DeepCopy()
			o.Generation, o.Spec.Suspend = 2, true
			c.object, c.executions["tidy"].object = o, o
		}, 0, "Suspended", 12, 1},
		{"it is deleted", nil, func(c *cluster) { c.executions["tidy"].deleted = true }, 0, "Deleted", 12, 1},
		{"movesPerHour is used up", func(c *cluster) { c.object.Spec.MovesPerHour = 3 }, nil, 1, "", 12, 2},
		{"movesPerHour is too small", func(c *cluster) { c.object.Spec.MovesPerHour = 1 }, nil, 0, "", 12, 0},
		{"somebody uncordons the node", nil, func(c *cluster) {
			c.onEvict = nil
			name := c.executions["tidy"].current().node
			c.nodes[name] = c.nodes[name].DeepCopy()
			c.nodes[name].Spec.Unschedulable = false
		}, 2, "", 12, 5},
		{"budgets become tighter", nil, func(c *cluster) {
			for i := range 6 {
				c.staying[fmt.Sprint("w", i)] = true
			}
		}, 0, "Refused", 12, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inCluster(t, func(c *cluster) {
				if tt.before != nil {
					tt.before(c)
				}
				w := c.begin()
				if tt.second != nil {
					c.onEvict = func() {
						tt.second(c)
						c.onEvict = nil
					}
				}
				c.run(30 * time.Minute)
				require.Equal(c, tt.stop, w.stop.reason, w.stop.message)
				require.Equal(c, tt.freed, w.freed)
				require.LessOrEqual(c, len(c.evicted), tt.most)
				for name, pods := range c.cordons() {
					require.Zero(c, pods, name)
				}
				require.Len(c, c.pods, tt.pods)
				if tt.pods == 12 {
					c.requireAllStand(12)
				} else {
					c.requireNothingHeld()
				}
			})
		})
	}
}

// A foreign scheduler's pod takes the room of the next move: the node is given up before the
// eviction, or the replacement stands elsewhere.
func TestForeignPodTakesTheRoom(t *testing.T) {
	inCluster(t, func(c *cluster) {
		w := c.begin()
		c.onEvict = func() {
			c.onEvict = nil
			for _, m := range w.current().moves {
				c.made++
				p := pod("xx", 200+c.made, 0, "2")
				p.Spec.NodeName, p.CreationTimestamp = m.to, metav1.Now()
				c.pods[p.UID] = p
			}
		}
		c.run(30 * time.Minute)
		require.True(c, w.finished)
		require.Positive(c, w.givenUp)
		for name, pods := range c.cordons() {
			require.Zero(c, pods, name)
		}
		for _, p := range c.pods {
			require.True(c, podspec.Ready(p), p.Name)
		}
		c.requireNothingHeld()
	})
}

// The node that a pod is to come to dies while the pod is away.
func TestNodeDies(t *testing.T) {
	inCluster(t, func(c *cluster) {
		w := c.begin()
		to := w.drains[0].moves[0].to
		c.onEvict = func() {
			c.onEvict = nil
			maps.DeleteFunc(c.pods, func(_ types.UID, p *v1.Pod) bool { return p.Spec.NodeName == to })
			delete(c.nodes, to)
		}
		c.run(30 * time.Minute)
		require.True(c, w.finished)
		require.Positive(c, w.givenUp)
		for name, pods := range c.cordons() {
			require.Zero(c, pods, name)
		}
		c.requireAllStand(10)
	})
}

// A scheduler is killed after so many seconds, at every step of the first two nodes. The next one
// uncordons what is not empty, and all pods stand.
func TestSchedulerIsKilled(t *testing.T) {
	for after := range 30 {
		inCluster(t, func(c *cluster) {
			c.begin()
			c.run(time.Duration(after) * time.Second)
			evicted := len(c.evicted)
			require.NoError(c, c.engine.Close())
			c.start()
			c.run(time.Minute)
			require.Len(c, c.evicted, evicted, "it goes on with nothing")
			for name, pods := range c.cordons() {
				require.Zero(c, pods, name)
			}
			c.requireAllStand(12)
		})
	}
}

// Without a number, the moves of an hour are a twentieth of the pods on nodes, but at least 20.
func TestPerHour(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.object.Spec.MovesPerHour = 0
		require.Equal(t, 20, c.perHour(c.object))
		for i := range 1000 {
			p := pod(fmt.Sprint("more", i), i, 0, "0")
			c.pods[p.UID] = p
		}
		c.add("m") // waits
		require.Equal(t, len(c.Pods())/20, c.perHour(c.object))
		require.Greater(t, c.perHour(c.object), 49)
		c.object.Spec.NodeSelector = map[string]string{"pool": "other"}
		require.Equal(t, 20, c.perHour(c.object), "its nodes have no pods")
		c.object.Spec.MovesPerHour = 3
		require.Equal(t, 3, c.perHour(c.object))
	})
}

// While a limit of all evictions has no room for the moves of a node, it is not cordoned.
func TestWaitsForALimit(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.full = errors.New("limit of the namespace shop")
		w := c.begin()
		c.run(10 * time.Minute)
		require.Empty(t, c.evicted)
		require.Empty(t, c.cordons())
		require.Contains(t, w.waiting, "limit of the namespace shop")
		c.full = nil
		c.run(10 * time.Minute)
		require.Len(t, c.evicted, 6)
	})
}

// A scheduler that starts again, or leads after another, counts what was evicted before, by the
// records in the workloads; what it evicted itself counts also where a record is gone.
func TestHour(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.object.Spec.MovesPerHour = 2
		c.begin()
		c.run(time.Minute)
		require.Len(c, c.evicted, 2)
		require.NoError(c, c.engine.Close())
		c.start()
		w := c.begin()
		c.run(50 * time.Minute)
		require.Len(c, c.evicted, 2, "after a restart")
		require.Contains(c, w.waiting, "takes 2 moves, and movesPerHour leaves 0")
		c.uncounted = errors.New("503")
		c.run(20 * time.Minute)
		require.Len(c, c.evicted, 2, "what cannot be counted may be full")
		require.Contains(c, w.waiting, "cannot be counted: 503")
		c.uncounted = nil
		c.run(time.Minute)
		require.Len(c, c.evicted, 4, "an hour later")
		c.written = nil
		c.run(50 * time.Minute)
		require.Len(c, c.evicted, 4, "the records are gone")
		c.run(20 * time.Minute)
		require.Len(c, c.evicted, 6)
		require.True(c, w.finished)
	})
}
