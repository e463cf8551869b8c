package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// repairing is a live policy with a repair.
func repairing(mode policy.RepairMode) *policy.Object {
	return spreading(func(s *policy.Spec) { s.Repair = &policy.Repair{Mode: mode, MinReplicas: new(1)} })
}

// The status says whether what the policy asks for is done; the extender never does it.
func TestRepairStatus(t *testing.T) {
	for _, tt := range []struct {
		name    string
		plugin  bool
		object  string
		mode    policy.Mode
		repair  policy.RepairMode
		want    string // of the condition
		applies policy.RepairMode
	}{
		{"plugin", true, "general", policy.Live, policy.RepairEnabled, "True Enabled 1", policy.RepairEnabled},
		{"DryRun", true, "general", policy.Live, policy.RepairDryRun, "True DryRun 1", policy.RepairDryRun},
		{"shadow", true, "general", policy.Shadow, policy.RepairEnabled, "False Shadow 1", policy.RepairDryRun},
		{"canary", true, "canary", policy.Live, policy.RepairEnabled, "False NotPrimary 1", policy.RepairDisabled},
		{"extender", false, "general", policy.Live, policy.RepairEnabled, "False ExtenderCannot 1", policy.RepairEnabled},
		{"disabled", true, "general", policy.Live, policy.RepairDisabled, "", policy.RepairDisabled},
		{"another profile's", true, "other", policy.Live, policy.RepairEnabled, "", policy.RepairDisabled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
				l.opt.Repairs = tt.plugin
				o := repairing(tt.repair)
				o.Spec.Mode = tt.mode
				s.apply(policies, tt.object, specOf(t, o))
				watch(l)
				l.sync()
				settle()
				require.Equal(t, tt.want, s.status(policies, tt.object)["Repair"])
				require.Equal(t, tt.applies, l.Repair().Mode)
				if tt.want == "" {
					return
				}
				o.Spec.Repair = nil
				s.apply(policies, tt.object, specOf(t, o))
				settle()
				require.Equal(t, "True Disabled 2", s.status(policies, tt.object)["Repair"], "it does not stay as it was")
				require.Equal(t, policy.RepairDisabled, l.Repair().Mode)
			})
		})
	}
}

// Who waits for the mode hears of it once it changes.
func TestRepairChanges(t *testing.T) {
	l := newLab(t)
	heard := make(chan bool, 1)
	l.WhenRepairChanges(func() { heard <- true })
	l.SetPolicy(ledger.Primary, repairing(policy.RepairEnabled))
	<-heard
	l.SetPolicy(ledger.Primary, repairing(policy.RepairEnabled))
	l.SetPolicy(ledger.Canary, repairing(policy.RepairDryRun))
	l.SetPolicy(ledger.Primary, nil)
	<-heard
	require.Empty(t, heard)
}

// Pods that a rule by zone binds do not move to make room, and no chain makes room for one.
func TestNoRescueByZone(t *testing.T) {
	moving := func(p *v1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "x", Controller: new(true)}}
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	}
	for app, found := range map[string]bool{"": true, "other": true, "db": false, "large": false} {
		l := newLab(t)
		l.SetPolicy(ledger.Primary, repairing(policy.RepairEnabled))
		l.node("a", 4)
		l.node("b", 4)
		if app != "" {
			r, err := kube.NewRule(&v1alpha1.PlacementRule{ObjectMeta: metav1.ObjectMeta{Name: "zones"}, Spec: v1alpha1.PlacementRuleSpec{
				PodSet:      v1alpha1.PodSet{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
				TopologyKey: v1.LabelTopologyZone, MaxPerNode: new(int32(9)),
			}})
			require.NoError(t, err)
			l.SetRules([]*kube.Rule{r})
		}
		l.stand(pod("db-1", "db", asks("cpu", "2"), moving), "a")
		l.stand(pod("log-1", "log", asks("cpu", "1")), "a")
		l.stand(pod("web-1", "web", asks("cpu", "1500m")), "b")
		l.sync()
		require.Equal(t, found, l.FindRoom(pod("large", "large", asks("cpu", "3")), []string{"a", "b"}, 8, nil) != nil, app)
	}
}

// A rescue is reserved in the cycle in which it was found, and released at the beginning of another. The log, which
// has no repair in the policy, gives the same reservations and decisions, also where it begins again.
func TestRescueIsReserved(t *testing.T) {
	l := newLab(t)
	l.SetPolicy(ledger.Primary, repairing(policy.RepairEnabled))
	l.node("a", 4)
	l.node("b", 4)
	moving := func(p *v1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "x", Controller: new(true)}}
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	}
	db := l.stand(pod("db-1", "db", asks("cpu", "2"), moving), "a")
	l.stand(pod("log-1", "log", asks("cpu", "1")), "a")
	l.stand(pod("web-1", "web", asks("cpu", "1500m")), "b")
	l.sync()
	large := pod("large", "large", asks("cpu", "3"))
	r := l.FindRoom(large, []string{"a", "b"}, 8, nil)
	require.Equal(t, "1 pod makes room on node a: default/db-1 moves from a to b", r.String())
	require.False(t, l.Holds("b"), "looking reserves nothing")
	require.Nil(t, l.FindRoom(large, []string{"a", "b"}, 8, func(p *v1.Pod) bool { return p.Name == "db-1" }))
	l.Begin(r, seconds(l.now.Add(time.Hour)))
	require.True(t, l.Holds("a"))
	require.Equal(t, []kube.PlaceState{kube.PlaceFree, kube.PlaceOccupied}, []kube.PlaceState{l.PlaceOf(r, 0), l.PlaceOf(r, 1)})
	require.Nil(t, l.FindRoom(pod("other", "other", asks("cpu", "3")), []string{"a", "b"}, 8, nil), "the chain's workload is engaged")

	l.mu.Lock()
	l.state.log.broken = true // it begins again, with what is reserved
	l.mu.Unlock()
	l.flush()
	require.Equal(t, "b", l.place(pod("db-2", "db", asks("cpu", "2"), moving)).Ranked[0].Node)
	l.leave(db)
	l.sync()
	require.Equal(t, kube.PlaceFree, l.PlaceOf(r, 1))
	l.End(r)
	require.True(t, l.Holds("a"), "nothing changes between a ranking and its placement")
	l.sync()
	require.False(t, l.Holds("a"))
	require.Equal(t, kube.PlaceLost, l.PlaceOf(r, 1))
	require.Equal(t, 1, l.verify().Causes[ledger.CausePlanned])
	for _, e := range l.logged(ledger.KindPolicy) {
		require.Nil(t, e.Policy.Spec.Repair)
	}

	// A state that is built again has no chain.
	l.Begin(r, seconds(l.now.Add(time.Hour)))
	require.True(t, l.Holds("a"))
	l.state.broken = errors.New("a bug")
	l.sync()
	require.False(t, l.Holds("a"))
	require.Equal(t, kube.PlaceLost, l.PlaceOf(r, 1))
	l.End(r)
	l.sync()
	l.verify()
}
