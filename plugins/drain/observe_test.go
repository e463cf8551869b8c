package drain

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// seen is what can be seen of the first drain.
func (c *cluster) seen(w *execution) observation {
	nodes := maps.Clone(c.nodes)
	return c.observe(c.Context(), w, w.drains[0], c.Pods(), nodes)
}

// change replaces a node by a changed copy.
func (c *cluster) change(name string, change func(*v1.Node)) {
	n := c.nodes[name].DeepCopy()
	change(n)
	c.nodes[name] = n
}

func notReady(n *v1.Node) {
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionUnknown}}
}

// What has changed since the plan was made is seen before the first eviction, and what changes
// meanwhile before the next.
func TestLost(t *testing.T) {
	for _, tt := range []struct {
		name  string
		stage stage
		tell  func(c *cluster, u *drain)
		want  string
	}{
		{"nothing", starting, func(*cluster, *drain) {}, ""},
		{"nothing, later", reserved, func(*cluster, *drain) {}, ""},
		{"the node is gone", reserved, func(c *cluster, u *drain) { delete(c.nodes, u.node) }, "the node is gone"},
		{"the node is not ready", reserved, func(c *cluster, u *drain) { c.change(u.node, notReady) }, "the node is not ready"},
		{"the node must stay", reserved, func(c *cluster, u *drain) {
			c.change(u.node, func(n *v1.Node) {
				n.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true", cordonedBy: "tidy"}
			})
		}, "an annotation forbids to remove the node"},
		{"somebody else has cordoned it", starting, func(c *cluster, u *drain) {
			c.change(u.node, func(n *v1.Node) { n.Spec.Unschedulable, n.Annotations = true, nil })
		}, "the node is cordoned by somebody else"},
		{"somebody has uncordoned it", cordoned, func(c *cluster, u *drain) {
			c.change(u.node, func(n *v1.Node) { n.Spec.Unschedulable = false })
		}, "somebody has uncordoned the node"},
		{"a pod has come", reserved, func(c *cluster, u *drain) {
			p := pod("xx", 50, 0, "1")
			p.Spec.NodeName = u.node
			c.pods[p.UID] = p
		}, "shop/xx-7d4-50 has come to the node"},
		{"a pod of a DaemonSet has come", reserved, func(c *cluster, u *drain) {
			p := pod("xx", 50, 0, "1")
			p.Spec.NodeName, p.OwnerReferences[0].Kind = u.node, "DaemonSet"
			c.pods[p.UID] = p
		}, ""},
		{"its pod is gone", reserved, func(c *cluster, u *drain) { delete(c.pods, u.moves[0].moved.pod.UID) }, "is gone"},
		{"its pod must stay by now", reserved, func(c *cluster, u *drain) {
			p := u.moves[0].moved.pod.DeepCopy()
			p.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
			c.pods[p.UID] = p
		}, "must stay: its annotation forbids it"},
		{"its pod has a grace of a day", reserved, func(c *cluster, u *drain) {
			p := u.moves[0].moved.pod.DeepCopy()
			p.Spec.TerminationGracePeriodSeconds = new(int64(86_400))
			c.pods[p.UID] = p
		}, "must stay: its terminationGracePeriodSeconds of 86400 s is above the ceiling of 15m0s"},
		{"another scheduler's", reserved, func(c *cluster, u *drain) {
			p := u.moves[0].moved.pod.DeepCopy()
			p.Spec.SchedulerName = "other"
			c.pods[p.UID] = p
		}, "is of the scheduler other"},
		{"the workload was scaled down", reserved, func(c *cluster, u *drain) {
			m := u.moves[0]
			for uid, p := range c.pods {
				if uid != m.moved.pod.UID && podspec.Group(p, "") == m.group {
					delete(c.pods, uid)
				}
			}
		}, "is one of 1 pods of its workload"},
		{"a plan has the workload", starting, func(c *cluster, u *drain) {
			c.engine.Hold("PlacementPlan/x", float64(time.Now().Add(time.Hour).Unix()), []kube.Place{{Pod: u.moves[0].moved.pod, Node: u.moves[0].to}})
			c.sync()
		}, "a plan or make-room moves pods of shop/"},
		{"the room is taken", starting, func(c *cluster, u *drain) {
			p := pod("xx", 50, 0, "2500m")
			p.Spec.NodeName = u.moves[0].to
			c.pods[p.UID] = p
		}, "lacks cpu for"},
		{"there is room for one of two", starting, func(c *cluster, u *drain) {
			u.moves[1].to = u.moves[0].to
			p := pod("xx", 50, 0, "500m")
			p.Spec.NodeName = u.moves[0].to
			c.pods[p.UID] = p
		}, "lacks cpu for"},
		{"where it goes is cordoned before", starting, func(c *cluster, u *drain) {
			c.change(u.moves[1].to, func(n *v1.Node) { n.Spec.Unschedulable = true })
		}, "is gone, cordoned or not ready"},
		{"a filter refuses it", starting, func(c *cluster, u *drain) { c.unfit[u.moves[1].to] = "InterPodAffinity: no" }, "InterPodAffinity: no"},
		{"a filter refuses it later", reserved, func(c *cluster, u *drain) { c.unfit[u.moves[1].to] = "InterPodAffinity: no" }, ""}, // it may pass
		{"where it goes is cordoned", reserved, func(c *cluster, u *drain) {
			c.change(u.moves[1].to, func(n *v1.Node) { n.Spec.Unschedulable = true })
		}, "is gone, cordoned or not ready"},
		{"where it goes is not ready", reserved, func(c *cluster, u *drain) { c.change(u.moves[1].to, notReady) }, "is gone, cordoned or not ready"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inCluster(t, func(c *cluster) {
				w := c.begin()
				u := w.drains[0]
				if u.stage = tt.stage; u.stage > starting {
					c.change(u.node, func(n *v1.Node) {
						n.Spec.Unschedulable, n.Annotations = true, map[string]string{cordonedBy: "tidy"}
					})
				}
				tt.tell(c, u)
				lost := c.seen(w).lost
				require.Contains(c, lost, tt.want)
				require.Equal(c, tt.want == "", lost == "", lost)
			})
		})
	}
}

// What may be over soon is waited for.
func TestBlocked(t *testing.T) {
	inCluster(t, func(c *cluster) {
		w := c.begin()
		m := w.drains[0].moves[0]
		require.Empty(c, c.seen(w).blocked(m).why)
		c.staying[workloadOf(m.moved.pod)] = true
		require.Equal(c, "a disruption budget keeps "+nameOf(m.moved.pod), c.seen(w).blocked(m).why)
		clear(c.staying)
		c.change(m.to, func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "x", Effect: v1.TaintEffectNoSchedule}} })
		require.Contains(c, c.seen(w).blocked(m).why, "does not admit")
		c.change(m.to, func(n *v1.Node) { n.Spec.Taints = nil })
		p := pod("xx", 50, 0, "1500m") // it ends
		p.Spec.NodeName, p.DeletionTimestamp = m.to, &metav1.Time{Time: time.Now()}
		c.pods[p.UID] = p
		require.Contains(c, c.seen(w).blocked(m).why, "lacks cpu")
		delete(c.pods, p.UID)
		c.unfit[m.to] = "NodePorts: no"
		require.Equal(c, "NodePorts: no", c.seen(w).blocked(m).why)
		clear(c.unfit)
		again := c.seen(w)
		asked := c.asked
		require.Equal(c, "NodePorts: no", again.blocked(m).why)
		require.Equal(c, asked, c.asked, "a refusal holds for a while")
		time.Sleep(refusalTTL)
		require.Empty(c, c.seen(w).blocked(m).why)
		c.unfit[m.to] = "NodePorts: no"
		require.Equal(c, "NodePorts: no", c.seen(w).blocked(m).why, "an agreement does not")
		clear(c.unfit)
		time.Sleep(refusalTTL)
		w.drains[0].inFlight = 2
		other := w.drains[0].moves[1] // it is away, and goes to the same node
		other.to, other.begun = m.to, true
		c.change(m.to, func(n *v1.Node) { n.Status.Allocatable["cpu"] = apiresource.MustParse("3500m") })
		require.Contains(c, c.seen(w).blocked(m).why, "lacks cpu")
	})
}

// A replacement is stranded once the scheduler has found no node for it, and no pod of its workload
// is still ending.
func TestStranded(t *testing.T) {
	inCluster(t, func(c *cluster) {
		w := c.begin()
		m := w.drains[0].moves[0]
		p := c.add(workloadOf(m.moved.pod))
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
		require.Empty(c, c.seen(w).stranded, "it is one more pod")
		m.begun = true
		require.Equal(c, nameOf(p), c.seen(w).stranded)
		ends := m.moved.pod.DeepCopy()
		ends.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		c.pods[ends.UID] = ends
		require.Empty(c, c.seen(w).stranded)
		delete(c.pods, ends.UID)
		p.Status.Conditions = nil
		require.Empty(c, c.seen(w).stranded, "it has not been tried yet")

		require.Equal(c, map[types.UID]bool{m.moved.pod.UID: false, w.drains[0].moves[1].moved.pod.UID: true}, c.seen(w).running)
	})
}

// A replacement is missing once the pod that moves is gone, until there is a new pod of its workload.
func TestMissing(t *testing.T) {
	inCluster(t, func(c *cluster) {
		w := c.begin()
		w.before = map[types.UID]bool{}
		for uid := range c.pods {
			w.before[uid] = true
		}
		m := w.drains[0].moves[0]
		m.begun = true
		require.Empty(c, c.seen(w).missing, "it still stands")
		delete(c.pods, m.moved.pod.UID)
		require.Equal(c, nameOf(m.moved.pod), c.seen(w).missing)
		p := c.add(workloadOf(m.moved.pod))
		require.Empty(c, c.seen(w).missing)
		m.moved.pod, m.done = p, true
		other := *m
		other.moved, other.done = &movedPod{c.add(workloadOf(p))}, false
		w.drains[0].moves = append(w.drains[0].moves, &other)
		delete(c.pods, other.moved.pod.UID)
		require.Equal(c, nameOf(other.moved.pod), c.seen(w).missing, "the replacement of another move is none of this one")
	})
}

// A plan waits for the uncordoning of a node that was given up, but not for long.
func TestClears(t *testing.T) {
	inCluster(t, func(c *cluster) {
		cordoned := func(emptied string) {
			c.change("n05", func(n *v1.Node) {
				n.Spec.Unschedulable, n.Annotations = true, map[string]string{cordonedBy: "tidy", emptiedAt: emptied}
			})
		}
		require.False(c, c.uncordonPending("tidy"))
		cordoned("")
		require.True(c, c.uncordonPending("tidy"))
		require.False(c, c.uncordonPending("other"))
		cordoned("2026-05-04T12:00:00Z")
		require.False(c, c.uncordonPending("tidy"), "it stays")
		cordoned("")
		require.True(c, c.uncordonPending("tidy"))
		time.Sleep(time.Minute)
		require.False(c, c.uncordonPending("tidy"), "it cannot be uncordoned")
	})
}

// A plan in mode Auto leaves more pods where they are than a dry run.
func TestStays(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.change("n05", func(n *v1.Node) {
			n.Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
		})
		c.staying["w1"] = true
		engaged := pod("w2", 0, 0, "1")
		c.engine.Hold("x", float64(time.Now().Add(time.Hour).Unix()), []kube.Place{{Pod: engaged, Node: "n04"}})
		c.sync()
		c.recent["w4"] = 1
		for i := range 8 { // two may move within an hour
			p := pod("w6", 10+i, 1, "1")
			c.pods[p.UID] = p
		}
		c.recent["w6"] = 1
		s, err := parseSpec(&c.object.Spec)
		require.NoError(c, err)
		stays, _, err := c.notEvictable(c.Context(), &s, c.Nodes(), c.Pods())
		require.NoError(c, err)
		require.Equal(c, []string{
			"", "its node must not be removed", "a disruption budget keeps it", "a plan or make-room moves pods of its workload", "no more pods of its workload may be evicted within the hour",
		}, []string{stays(pod("w3", 0, 0, "1")), stays(pod("w3", 0, 5, "1")), stays(pod("w1", 0, 0, "1")), stays(engaged), stays(pod("w4", 0, 0, "1"))})
		require.Empty(c, stays(pod("w6", 10, 1, "1")), "one of two has moved")
		c.recent["w6"] = 2
		stays, moved, err := c.notEvictable(c.Context(), &s, c.Nodes(), c.Pods())
		require.NoError(c, err)
		require.NotEmpty(c, stays(pod("w6", 10, 1, "1")))
		require.Equal(c, 2, moved[podspec.Group(pod("w6", 10, 1, "1"), c.AppLabel)])
		for uid, p := range c.pods {
			if workloadOf(p) == "w6" {
				delete(c.pods, uid)
			}
		}

		w := c.begin()
		for _, u := range w.drains {
			require.NotEqual(c, "n05", u.node)
			for _, m := range u.moves {
				require.NotContains(c, []string{"w1", "w2", "w4"}, workloadOf(m.moved.pod))
			}
		}
		c.change("n04", func(n *v1.Node) { n.Spec.Unschedulable = true })
		for _, u := range c.begin().drains {
			require.NotEqual(c, "n04", u.node, "it is cordoned")
			for _, m := range u.moves {
				require.NotEqual(c, "n04", m.to)
			}
		}
	})
}

func TestStops(t *testing.T) {
	inCluster(t, func(c *cluster) {
		w := c.begin()
		c.listedAt = time.Now()
		reason := func() string { return c.checkStop(c.Context(), w, time.Now(), nil).reason }
		require.Empty(c, reason())
		c.listedAt = time.Now().Add(-time.Minute - 1)
		require.Equal(c, "Unreadable", reason())
		c.listedAt = time.Now()
		c.leads = func() bool { return false }
		require.Equal(c, "NotLeading", reason())
		w.object = w.object.DeepCopy()
		w.object.Generation = 2
		require.Equal(c, "Changed", reason())
		w.object.Spec.Suspend = true
		require.Equal(c, "Suspended", reason())
		w.deleted = true
		require.Equal(c, "Deleted", reason())
	})
}

// Pods that wait stop the whole plan, also when they wait no more.
func TestStopIsForGood(t *testing.T) {
	inCluster(t, func(c *cluster) {
		w := c.begin()
		c.onEvict = func() {
			c.onEvict = nil
			p := c.add("xl")
			p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = apiresource.MustParse("4")
			c.later(2*time.Second, func() { delete(c.pods, p.UID) })
		}
		c.run(10 * time.Minute)
		require.Equal(c, "PodsWait", w.stop.reason)
		require.True(c, w.finished)
		require.Len(c, c.evicted, 1)
		require.Empty(c, c.cordons())
		c.requireAllStand(12)
	})
}

// One node that is refused is given up, and the next is tried.
func TestOneIsRefused(t *testing.T) {
	inCluster(t, func(c *cluster) {
		w := c.begin()
		c.refuses[workloadOf(w.drains[0].moves[0].moved.pod)] = errors.New("429")
		c.refuses[workloadOf(w.drains[1].moves[0].moved.pod)] = errors.New("429")
		c.run(10 * time.Minute)
		require.Equal(c, "Refused", w.stop.reason)
		require.EqualValues(c, 2, w.givenUp, "the third is not tried")

		clear(c.refuses)
		w = c.begin()
		c.refuses[workloadOf(w.drains[0].moves[0].moved.pod)] = errors.New("429")
		c.run(10 * time.Minute)
		require.Empty(c, w.stop.reason)
		require.EqualValues(c, 1, w.givenUp)
		require.Positive(c, w.freed)
		c.requireAllStand(12)
	})
}

// Of several Rebalances, one is carried out at a time.
func TestOneAtATime(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.serve()
		c.apply(func(*v1alpha1.Rebalance) {})
		first := c.object.DeepCopy()
		c.apply(func(o *v1alpha1.Rebalance) { o.Name, o.UID = "other", "o" })
		c.run(10 * time.Second)
		require.Len(c, c.executions, 1)
		c.run(5 * time.Minute)
		require.Len(c, c.executions, 2, "the other comes after it")
		c.object = first
		require.Len(c, c.evicted, 6)
		c.requireAllStand(12)
	})
}
