package drain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sigma-scheduler/sigma/internal/usage"
	"github.com/sigma-scheduler/sigma/internal/usage/prometheus"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// skewed is a clock that may be set.
type skewed struct{ by time.Duration }

func (s *skewed) Now() time.Time                  { return time.Now().Add(s.by) }
func (s *skewed) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

// A useOfCluster is the use of the pods of a cluster.
type useOfCluster struct {
	c     *cluster
	cores map[string]float64 // of each pod of a workload
	err   error
	lacks func(p *v1.Pod) bool    // it has no sample
	odd   func(p *v1.Pod) float64 // instead of the use; 0 = none
	asked int
}

// relieve has the cluster carry out a Rebalance of goal Relief, by the use of pods.
func (c *cluster) relieve(cores map[string]float64, change func(*v1alpha1.Rebalance)) *useOfCluster {
	u := &useOfCluster{c: c, cores: cores}
	if c.objects == nil {
		c.serve()
	}
	c.follow(u)
	c.apply(func(o *v1alpha1.Rebalance) {
		o.Spec.Goal, o.Spec.Every, o.Spec.ReliefPercent = v1alpha1.RebalanceRelief, "", 100
		change(o)
	})
	return u
}

// follow has the controller read the use, and keep to the pods that were evicted within the hour.
func (c *cluster) follow(u *useOfCluster) {
	c.uses = u.read
	c.sync()
	c.onEvict = func() {
		workload := c.evicted[len(c.evicted)-1]
		c.recent[workload]++
		c.later(time.Hour, func() { c.recent[workload]-- })
	}
}

func (u *useOfCluster) of(p *v1.Pod) float64 { return u.cores[workloadOf(p)] }

func (u *useOfCluster) read(context.Context, time.Time) (windows [2]prometheus.Latest, err error) {
	u.asked++
	for i := range windows {
		windows[i] = prometheus.Latest{}
		for _, p := range u.c.pods {
			if cores := u.of(p); p.Spec.NodeName != "" && (u.lacks == nil || !u.lacks(p)) {
				if u.odd != nil && u.odd(p) != 0 {
					cores = u.odd(p)
				}
				windows[i][prometheus.Pod{Namespace: p.Namespace, Name: p.Name}] = map[string]usage.Amounts{"c": {CPU: cores, Memory: 1}}
			}
		}
	}
	return windows, u.err
}

// hot are the nodes whose pods use more than the node has.
func (u *useOfCluster) hot() (n int) {
	sums := map[string]float64{}
	for _, p := range u.c.pods {
		sums[p.Spec.NodeName] += u.of(p)
	}
	for _, cores := range sums {
		if cores > 4 {
			n++
		}
	}
	return n
}

// longRunning has all pods run for an hour, so that a sample of each is expected.
func (c *cluster) longRunning() {
	for uid, p := range c.pods {
		p = p.DeepCopy()
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-time.Hour))}}}}
		c.pods[uid] = p
	}
}

// Nodes 0 and 3 have a pod of w0 and w1 each, nodes 1 and 4 of w2 and w3, nodes 2 and 5 of w4 and w5. Pods of w0 and w1 use too much
// on node 0 alone, as node 3 is given one of w1 less.
func hotCluster(c *cluster) map[string]float64 {
	for uid, p := range c.pods {
		if p.Spec.NodeName == "n03" && workloadOf(p) == "w1" {
			p = p.DeepCopy()
			p.Spec.NodeName = "n04"
			c.pods[uid] = p
		}
	}
	return map[string]float64{"w0": 3, "w1": 1.5, "w2": 1, "w3": .5, "w4": 1, "w5": 1}
}

func TestReliefIsCarriedOut(t *testing.T) {
	inCluster(t, func(c *cluster) {
		u := c.relieve(hotCluster(c), func(o *v1alpha1.Rebalance) { o.Spec.Mode, o.Spec.Moves = v1alpha1.RebalanceDryRun, "3" })
		c.run(3 * time.Minute)
		require.Empty(c, c.evicted)
		plan := c.status().Plan
		require.EqualValues(c, 1, *plan.Over)
		require.Len(c, plan.Leaves, 1)
		require.Regexp(c, "^shop/w1-", plan.Leaves[0].Pod)
		require.Empty(c, c.object.Status.Today)
		require.GreaterOrEqual(c, u.asked, 3, "each minute")

		c.apply(func(o *v1alpha1.Rebalance) { o.Spec.Mode, o.Generation = v1alpha1.RebalanceAuto, 2 })
		c.run(time.Hour)
		require.Equal(c, []string{"w1"}, c.evicted)
		require.Zero(c, u.hot())
		require.Empty(c, c.cordons(), "no node is cordoned")
		today, p := c.status().Today, c.object.Status.Progress
		require.Equal(c, []int32{0, 1, 0}, []int32{p.Freed, p.Moved, p.GivenUp})
		require.Len(c, today, 1)
		for _, p := range c.pods {
			if workloadOf(p) == "w1" && p.Spec.NodeName != "n04" {
				require.Equal(c, today[0].To, p.Spec.NodeName, "where the plan has it")
			}
		}
		c.requireCondition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, "Done")
		require.Contains(c, conditionOf(c.object, v1alpha1.ConditionPlanned).Message, "On 0 of 6 nodes pods use more than the node has.")
		c.apply(func(o *v1alpha1.Rebalance) { o.Spec.Suspend, o.Generation = true, 3 })
		u.cores = map[string]float64{"w2": 3, "w3": 3}
		c.run(time.Hour)
		require.Len(c, c.evicted, 1)
		c.requireAllStand(12)
	})
}

// A node that is short of cpu shows as much use as it has.
func TestReliefPercent(t *testing.T) {
	for percent, want := range map[int32]int{100: 0, 90: 1} {
		inCluster(t, func(c *cluster) {
			cores := hotCluster(c)
			cores["w0"] = 2.4 // 3.9 in all on node 0
			c.relieve(cores, func(o *v1alpha1.Rebalance) { o.Spec.Moves, o.Spec.ReliefPercent = "3", percent })
			c.run(20 * time.Minute)
			require.Len(c, c.evicted, want)
			require.Len(c, c.status().Today, want)
			c.requireAllStand(12)
		})
	}
	spec := defaults()
	spec.Goal, spec.ReliefPercent = v1alpha1.RebalanceRelief, 101
	_, err := parseSpec(spec)
	require.EqualError(t, err, "spec.reliefPercent: 101: want 50 to 100")
}

// A refused eviction takes nothing from the limit of the day, and its node rests.
func TestReliefIsRefused(t *testing.T) {
	inCluster(t, func(c *cluster) {
		cores := hotCluster(c)
		for w := range cores {
			c.refuses[w] = errors.New("429")
		}
		c.relieve(cores, func(o *v1alpha1.Rebalance) { o.Spec.Moves = "1" })
		c.run(2 * time.Minute)
		require.Empty(c, c.status().Today)
		require.Contains(c, conditionOf(c.object, v1alpha1.ConditionPlanned).Message, "failed less than 10 minutes ago")
		clear(c.refuses)
		c.run(15 * time.Minute)
		require.Equal(c, []string{"w1"}, c.evicted)
		require.Len(c, c.status().Today, 1)
		c.requireAllStand(12)
	})
}

// No pod is evicted before its move is part of the status.
func TestReliefIsNotWritten(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.relieve(hotCluster(c), func(o *v1alpha1.Rebalance) { o.Spec.Moves = "3" })
		refused := 0
		c.objects.(*fake.FakeDynamicClient).PrependReactor("patch", "rebalances", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if strings.Contains(string(a.(clienttesting.PatchAction).GetPatch()), `"today":[{`) {
				refused++
				return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "rebalances"}, "tidy", errors.New("it changed"))
			}
			return false, nil, nil
		})
		c.run(10 * time.Minute)
		require.Positive(c, refused)
		require.Empty(c, c.evicted)
		require.Empty(c, c.status().Today)
		c.requireAllStand(12)
	})
}

// Relief does not wait until the end of an hour with another Rebalance.
func TestReliefOvertakes(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.relieve(hotCluster(c), func(o *v1alpha1.Rebalance) { o.Spec.Moves = "3" })
		other := c.object.DeepCopy()
		other.Name, other.UID, other.Spec.Goal = "aaa", "o", v1alpha1.RebalanceEmptyNodes
		c.executions["aaa"] = &execution{object: other, name: "aaa", generation: 1, waiting: "movesPerHour leaves 0", drains: []*drain{{node: "n05"}}, countedAt: time.Now().Add(time.Hour)}
		relief := c.object
		x := c.executions["aaa"]
		s, err := parseSpec(&relief.Spec)
		require.NoError(c, err)
		require.True(c, s.overtakes(x))
		c.executions["tidy"] = &execution{object: relief, name: "tidy", drains: []*drain{{node: "n00", keeps: true}}}
		require.Equal(c, "tidy", c.inProgress().name, "that which does not wait")
		x.waiting = ""
		require.False(c, s.overtakes(x))
		require.Equal(c, "aaa", c.inProgress().name)
	})
}

// TestReliefFaults has twenty rounds of each fault, with other uses. Whatever fails, the limits hold, all pods
// stand, and nothing stays reserved or cordoned.
func TestReliefFaults(t *testing.T) {
	for _, fault := range []struct {
		name  string
		begin func(c *cluster, u *useOfCluster, rng *rand.Rand)
		moves bool // some round has moves
	}{
		{"none", func(*cluster, *useOfCluster, *rand.Rand) {}, true},
		{"no Prometheus", func(_ *cluster, u *useOfCluster, _ *rand.Rand) { u.err = errors.New("connection refused") }, false},
		{"no samples", func(c *cluster, u *useOfCluster, _ *rand.Rand) {
			c.longRunning()
			u.lacks = func(*v1.Pod) bool { return true }
		}, false},
		{"a sample of each node lacks", func(c *cluster, u *useOfCluster, _ *rand.Rand) {
			c.longRunning()
			u.lacks = func(p *v1.Pod) bool { return workloadOf(p) == "w0" || workloadOf(p) == "w2" || workloadOf(p) == "w4" }
		}, false},
		{"uses that cannot be", func(_ *cluster, u *useOfCluster, _ *rand.Rand) { u.odd = func(*v1.Pod) float64 { return 1e6 } }, false},
		{"all nodes are above", func(_ *cluster, u *useOfCluster, rng *rand.Rand) {
			for w := range u.cores {
				u.cores[w] = 2.1 + rng.Float64()
			}
		}, false},
		{"a tenth of the workloads has ten times the load", func(_ *cluster, u *useOfCluster, rng *rand.Rand) {
			for w := range u.cores {
				u.cores[w] = .35
			}
			u.cores[fmt.Sprint("w", rng.IntN(6))] = 3.8
		}, true},
		{"the clock is set back", func(c *cluster, _ *useOfCluster, rng *rand.Rand) {
			by := &skewed{}
			c.clock = by
			c.later(time.Duration(rng.IntN(600))*time.Second, func() { by.by = -time.Duration(1+rng.IntN(48)) * time.Hour })
		}, true},
		{"the scheduler is killed", func(c *cluster, u *useOfCluster, rng *rand.Rand) {
			var kill func()
			kill = func() {
				objects := c.objects
				require.NoError(c, c.engine.Close())
				c.start()
				c.serve()
				c.objects = objects
				c.follow(u)
				c.later(time.Duration(5+rng.IntN(90))*time.Second, kill)
			}
			c.later(time.Duration(rng.IntN(60))*time.Second, kill)
		}, true},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			total := 0
			rounds := 6
			if text := os.Getenv("SIGMA_ROUNDS"); text != "" {
				var err error
				rounds, err = strconv.Atoi(text)
				require.NoError(t, err)
			}
			for round := range rounds {
				inCluster(t, func(c *cluster) {
					rng := rand.New(rand.NewPCG(7, uint64(round)))
					cores := map[string]float64{}
					for i := range 6 {
						cores[fmt.Sprint("w", i)] = .3 + 2.9*math.Pow(rng.Float64(), 2)
					}
					u := c.relieve(cores, func(o *v1alpha1.Rebalance) { o.Spec.Moves, o.Spec.MovesPerHour = "4", 3 })
					fault.begin(c, u, rng)
					if c.run(30 * time.Minute); fault.moves {
						c.run(35 * time.Minute)
					}
					require.LessOrEqual(c, len(c.evicted), 4, "of the day")
					byWorkload := map[string]int{}
					for i, w := range c.evicted {
						byWorkload[w]++
						require.LessOrEqual(c, byWorkload[w], 1, "a quarter of two pods, at least one")
						require.False(c, i >= 3 && c.written[i].Sub(c.written[i-3]) < time.Hour, "of an hour")
					}
					total += len(c.evicted)
					if !fault.moves {
						require.Empty(c, c.evicted)
						require.Empty(c, c.status().Today)
					}
					c.apply(func(o *v1alpha1.Rebalance) { c.status(); o.Spec.Suspend, o.Generation = true, 9 })
					c.due = nil
					c.run(2 * time.Minute)
					require.Empty(c, c.cordons())
					for uid, p := range c.pods { // of an eviction just before the end
						if p.DeletionTimestamp != nil {
							delete(c.pods, uid)
						}
					}
					for _, p := range c.pods {
						require.NotEmpty(c, p.Spec.NodeName)
					}
					c.requireNothingHeld()
				})
			}
			require.Equal(t, fault.moves, total > 0)
			t.Logf("| %s | %d | %d moves |", fault.name, rounds, total)
		})
	}
}

// A scheduler is killed after so many seconds, at every step of a move. The next one counts the move of the day, whether its
// pod was evicted or not.
func TestReliefIsKilledAtEachStep(t *testing.T) {
	for after := range 20 {
		inCluster(t, func(c *cluster) {
			u := c.relieve(hotCluster(c), func(o *v1alpha1.Rebalance) { o.Spec.Moves = "1" })
			c.run(time.Duration(after) * time.Second)
			evicted, planned, objects := len(c.evicted), len(c.status().Today), c.objects
			require.LessOrEqual(c, evicted, planned, "it is written before")
			require.NoError(c, c.engine.Close())
			c.start()
			c.serve()
			c.objects = objects
			c.follow(u)
			c.run(20 * time.Minute)
			require.LessOrEqual(c, len(c.evicted), 1, "killed after %d s", after)
			if planned == 0 {
				require.Len(c, c.evicted, 1)
			}
			require.Empty(c, c.cordons())
			c.requireAllStand(12)
		})
	}
}

// Nightly moves keep to their limit, over nights and restarts.
func TestFitIsCarriedOut(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.serve()
		for uid, p := range c.pods { // nodes 0, 1 and 2 have .5 cores too few
			if workloadOf(p) == "w0" || workloadOf(p) == "w2" || workloadOf(p) == "w4" {
				if p.Spec.NodeName < "n03" {
					p = p.DeepCopy()
					p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": apiresource.MustParse("3500m")}
					c.pods[uid] = p
				}
			}
		}
		c.follow(&useOfCluster{c: c})
		c.apply(func(o *v1alpha1.Rebalance) {
			o.Spec.Goal, o.Spec.Every, o.Spec.Moves = v1alpha1.RebalanceFit, "", "1"
		})
		c.run(12 * time.Hour) // from midnight on
		require.Len(c, c.evicted, 1)
		require.EqualValues(c, 2, *c.status().Plan.Over, "five minutes after midnight")
		objects := c.objects
		require.NoError(c, c.engine.Close())
		c.start()
		c.serve()
		c.objects = objects
		c.follow(&useOfCluster{c: c})
		c.run(11 * time.Hour)
		require.Len(c, c.evicted, 1)
		c.run(2 * time.Hour)
		require.Len(c, c.evicted, 2, "the next night")
		c.apply(func(o *v1alpha1.Rebalance) { c.status(); o.Spec.Moves, o.Generation = "10", 2 })
		c.run(time.Hour)
		require.Len(c, c.evicted, 3)
		require.Len(c, c.status().Today, 2)
		for _, n := range c.Nodes() {
			require.GreaterOrEqual(c, c.free(n.Name), int64(0), n.Name)
		}
		for _, p := range c.pods {
			require.True(c, podspec.Ready(p))
		}
		require.Empty(c, c.cordons())
		c.requireAllStand(12)
	})
}
