package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/ledger/ledgertest"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
)

// log appends events to the decision log, now.
func (b *bench) log(events ...ledger.Event) {
	b.t.Helper()
	f, err := os.OpenFile(filepath.Join(b.dir, "decisions.jsonl"), os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(b.t, err)
	for _, e := range events {
		b.seq++
		e.Seq, e.Time = uint64(b.seq), float64(b.now.UnixMilli())/1e3
		text, err := json.Marshal(&e)
		require.NoError(b.t, err)
		_, err = f.Write(append(text, '\n'))
		require.NoError(b.t, err)
	}
	require.NoError(b.t, f.Close())
}

// place has a pod come to a node.
func (b *bench) place(node, cause, digest string) {
	uid := fmt.Sprint("late-", b.seq)
	b.log(ledger.Event{Kind: ledger.KindArrive, UID: uid, Pod: "shop/" + uid, App: "shop/app-0"},
		ledger.Event{Kind: ledger.KindDecide, UID: uid, Pod: "shop/" + uid, App: "shop/app-0", Node: node, Decision: &ledger.Decision{Cause: cause, PolicyDigest: digest}})
}

// takeUp is the scheduler that has a policy.
func (b *bench) takeUp(name string) {
	h := b.policy(name)
	require.NotNil(b.t, h.policy, name)
	h.object.Object["status"] = map[string]any{
		"digest": h.policy.Digest(), "observedGeneration": h.object.GetGeneration(),
		"conditions": []any{map[string]any{"type": v1alpha1.ConditionAccepted, "status": "True", "reason": "Valid", "lastTransitionTime": "2026-11-06T00:00:00Z"}},
	}
	require.NoError(b.t, b.c.Update(b.t.Context(), h.object))
}

// idle waits until no job runs.
func (b *bench) idle() {
	w := b.r.loops["general"].worker
	require.Eventually(b.t, func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.job == "" }, time.Minute, time.Millisecond)
}

// toShadow leads a candidate to shadow that was trained and judged before.
func toShadow(t *testing.T, change func(*v1alpha1.PolicyPilotSpec)) (b *bench, digest string) {
	b = newBench(t)
	o := b.pilot()
	if change != nil {
		change(&o.Spec)
	}
	b.record()
	p := *b.policy("general").policy
	p.Spec.Rule = &rule.Settings{Choice: rule.Choice{Name: "mostallocated"}}
	digest = p.Digest()
	s, err := newShelf(b.r.folder(o))
	require.NoError(t, err)
	require.NoError(t, s.keep(&p))
	text, err := json.Marshal(pilot.State{Phase: pilot.AwaitingApproval, Since: b.now, Begun: b.now, Stepped: b.now, Trained: b.now.Add(time.Hour), Candidate: digest})
	require.NoError(t, err)
	o.Annotations = map[string]string{v1alpha1.ApprovedAnnotation: digest}
	require.NoError(t, b.c.Update(t.Context(), o))
	o.Status.Memory = &runtime.RawExtension{Raw: text}
	require.NoError(t, b.c.Status().Update(t.Context(), o))
	require.NoError(t, b.step())
	phase := b.pilot().Status.Phase
	require.Contains(t, []string{"Shadow", "Canary", "Live"}, phase)
	if phase == "Live" {
		b.takeUp("general")
	} else {
		b.takeUp("general-candidate")
	}
	return b, digest
}

// minutes lets pods come one a minute, each of which a function places, until a phase, or for so many.
func (b *bench) minutes(n int, phase pilot.Phase, place func()) *v1alpha1.PolicyPilot {
	b.t.Helper()
	var o *v1alpha1.PolicyPilot
	for range n {
		b.now = b.now.Add(time.Minute)
		place()
		require.NoError(b.t, b.step())
		b.idle()
		if o = b.pilot(); o.Status.Phase == string(phase) {
			return o
		}
	}
	return o
}

func limits(s *v1alpha1.PolicyPilotSpec) {
	s.Guard.OpenedVsBestFit, s.Guard.CostVsBestFit, s.Guard.PendingP99 = new(1.5), new(2.), "10m"
}

// In shadow the candidate is replayed beside Best-Fit; as a canary its own decisions are held against
// Best-Fit's in the same cycles. One that opens nodes is rolled back.
func TestOpensNodes(t *testing.T) {
	b, digest := toShadow(t, limits)
	others := func() { b.place("node-00", ledger.CauseNeutral, "") }
	o := b.minutes(30, pilot.Canarying, others)
	require.Equal(t, "Canary", o.Status.Phase, "%v %v", o.Status.Reasons, o.Status.Conditions)
	w := b.r.loops["general"].worker
	require.Greater(t, w.paths.of[pathCandidate].Pods, 5)
	require.Greater(t, w.paths.of[pathCurrent].Nodes, 10)
	for n := range 12 {
		b.log(ledger.Event{Kind: ledger.KindNode, Node: fmt.Sprintf("spare-%02d", n), Machine: &ledger.Machine{
			Capacity: map[string]int64{"cpu": 16000, "memory": 64 << 30, "pods": 110}, Cost: 1,
		}})
	}
	n := -1
	o = b.minutes(12, pilot.RolledBack, func() {
		n++
		b.place(fmt.Sprintf("spare-%02d", n), ledger.CausePolicy, digest)
	})
	require.Equal(t, "RolledBack", o.Status.Phase, "%v %v", o.Status.Reasons, o.Status.Conditions)
	// (1+5)/(0+5) is 1.2, (2+5)/(0+5) 1.4, (3+5)/(0+5) 1.6.
	require.Equal(t, 2, n)
	require.Contains(t, strings.Join(o.Status.Reasons, " "), "nodes opened ÷ those that Best-Fit would have opened is 1.6, want at most 1.5")
	require.NoError(t, b.step())
	require.Equal(t, pilot.Shadow, b.policy("general-candidate").applied().Mode)
}

// Of a live policy, what stands is held against Best-Fit's trajectory.
func TestCosts(t *testing.T) {
	b, digest := toShadow(t, func(s *v1alpha1.PolicyPilotSpec) {
		limits(s)
		s.Rollout = []v1alpha1.PilotStep{{Mode: "shadow", For: "10m"}, {Mode: "live", For: "10m"}}
		s.Guard.CostVsBestFit, s.Guard.OpenedVsBestFit = new(1.05), nil
	})
	o := b.minutes(30, pilot.GoingLive, func() { b.place("node-00", ledger.CauseNeutral, "") })
	require.Equal(t, "Live", o.Status.Phase, "%v %v", o.Status.Reasons, o.Status.Conditions)
	require.NoError(t, b.step())
	b.takeUp("general")
	for n := range 12 {
		b.log(ledger.Event{Kind: ledger.KindNode, Node: fmt.Sprintf("spare-%02d", n), Machine: &ledger.Machine{
			Capacity: map[string]int64{"cpu": 16000, "memory": 64 << 30, "pods": 110}, Cost: 1,
		}})
	}
	n := -1
	spread := func() { n++; b.place(fmt.Sprintf("spare-%02d", n), ledger.CausePolicy, digest) }
	b.minutes(2, pilot.RolledBack, spread)
	b.minutes(1, pilot.RolledBack, func() {}) // what was replayed is published with the next step
	of := b.r.loops["general"].worker.paths.of
	require.Equal(t, 2, of[pathCurrent].Nodes-of[pathBestFit].Nodes)
	require.Equal(t, float64(of[pathCurrent].Nodes), value(t, "sigma_counterfactual_nodes", pathCurrent))
	require.Equal(t, float64(of[pathBefore].Nodes-of[pathCurrent].Nodes), value(t, "sigma_saved_nodes", ""))
	require.InDelta(t, of[pathBefore].Cost-of[pathCurrent].Cost, value(t, "sigma_saved_cost", ""), 1e-9)
	o = b.minutes(12, pilot.RolledBack, spread)
	require.Equal(t, "RolledBack", o.Status.Phase, "%v %v", o.Status.Reasons, o.Status.Conditions)
	require.Contains(t, strings.Join(o.Status.Reasons, " "), "cost of nodes in use ÷ that under Best-Fit is 1.")
	require.NoError(t, b.step())
	require.Equal(t, pilot.Shadow, b.policy("general").applied().Mode, "there is none before it")
	require.NoError(t, b.step())
	require.False(t, savedNodes.DeleteLabelValues("general"), "it is published of a policy that is not in force")
}

// value is that of a gauge that was published of the pilot general.
func value(t *testing.T, name, policy string) float64 {
	t.Helper()
	register()
	families, err := ctrlmetrics.Registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			if f.GetName() == name && slices.Equal(labels, append([]string{"general"}, strings.Fields(policy)...)) {
				return m.GetGauge().GetValue()
			}
		}
	}
	require.Fail(t, "not published", "%s %s", name, policy)
	return 0
}

// A spec that cannot be carried out takes no limit out of force, also in a new process.
func TestSpecBreaks(t *testing.T) {
	b, _ := toShadow(t, limits)
	others := func() { b.place("node-00", ledger.CauseNeutral, "") }
	b.minutes(2, "", others)
	o := b.pilot()
	o.Spec.Train.Schedule, o.Spec.Guard = "weekly", v1alpha1.PilotGuard{Every: "1m", Rest: "1h"}
	require.NoError(t, b.c.Update(t.Context(), o))
	b.restart()
	o = b.minutes(20, pilot.Canarying, others)
	require.Equal(t, "Shadow", o.Status.Phase, "promoted by a spec that cannot be carried out")
	require.Contains(t, conditionOf(o, v1alpha1.ConditionAccepted).Message, "train.schedule: expected")
	require.Contains(t, strings.Join(o.Status.Reasons, " "), "only the limits are watched: train.schedule")
	require.Equal(t, "weekly", o.Spec.Train.Schedule, "the user's spec is changed")
	b.log(ledger.Event{Kind: ledger.KindArrive, UID: "waits", Pod: "shop/waits", App: "shop/app-0"})
	o = b.minutes(20, pilot.RolledBack, others)
	require.Equal(t, "RolledBack", o.Status.Phase, "%v %v", o.Status.Reasons, o.Status.Conditions)
	require.Contains(t, strings.Join(o.Status.Reasons, " "), "seconds that a pod is pending (p99)")
}

// What the account may not do is said, and promotes nothing; the limits that can be measured hold.
func TestForbidden(t *testing.T) {
	forbidden := func(resource, name string) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: v1alpha1.GroupName, Resource: resource}, name, nil)
	}
	b, _ := toShadow(t, func(s *v1alpha1.PolicyPilotSpec) { limits(s); s.Guard.RuleConflicts = new(int32(0)) })
	others := func() { b.place("node-00", ledger.CauseNeutral, "") }

	// PlacementRules: the limit is not known.
	b.calls.List = func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
		if _, ok := list.(*v1alpha1.PlacementRuleList); ok {
			return forbidden("placementrules", "")
		}
		return nil
	}
	o := b.minutes(20, pilot.Canarying, others)
	require.Equal(t, "Shadow", o.Status.Phase)
	measured := conditionOf(o, v1alpha1.ConditionMeasured)
	require.Equal(t, metav1.ConditionFalse, measured.Status)
	require.Regexp(t, "nodes with pods against a rule is not known: PlacementRules: .*forbidden", measured.Message)

	// The candidate: it is not seen in the step.
	b.calls.List = nil
	b.calls.Get = func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
		if key.Name == "general-candidate" {
			return forbidden("placementpolicies", key.Name)
		}
		return nil
	}
	b.calls.Patch = func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		return forbidden("placementpolicies", "general-candidate")
	}
	b.now = b.now.Add(time.Minute)
	require.Error(t, b.step(), "it is asked for again")
	b.now = b.now.Add(time.Minute)
	require.Error(t, b.step())
	o = b.pilot()
	require.Equal(t, "Shadow", o.Status.Phase)
	require.Equal(t, "NotTakenUp", conditionOf(o, v1alpha1.ConditionMeasured).Reason)
	text := strings.Join(o.Status.Reasons, "; ")
	require.Contains(t, text, "general-candidate cannot be read: sigma-pilot may not read it")
	require.Contains(t, text, "the last step could not be carried out: SetCandidate")

	// Writing: the step is asked for until it can be taken.
	b.calls.Get = nil
	for range 25 {
		if b.now = b.now.Add(time.Minute); b.pilot().Status.Phase == "Canary" {
			break
		}
		others()
		_ = b.step() // an error as soon as there is something to write
		b.idle()
	}
	require.Equal(t, "Canary", b.pilot().Status.Phase)
	require.Error(t, b.step())
	require.Equal(t, pilot.Shadow, b.policy("general-candidate").applied().Mode)
	b.now = b.now.Add(time.Hour)
	require.Error(t, b.step())
	o = b.pilot()
	require.Equal(t, "Canary", o.Status.Phase)
	require.Contains(t, strings.Join(o.Status.Reasons, "; "), "the last step could not be carried out: SetCandidate")
	b.calls.Patch = nil
	require.NoError(t, b.step())
	require.Equal(t, pilot.Canary, b.policy("general-candidate").applied().Mode)
}

// A volume that takes no file holds nothing up that brings a policy back.
func TestVolumeFull(t *testing.T) {
	b, _ := toShadow(t, limits)
	others := func() { b.place("node-00", ledger.CauseNeutral, "") }
	b.minutes(3, "", others)
	s := b.r.loops["general"].worker.shelf
	require.NoError(t, os.Chmod(s.dir, 0o500))
	t.Cleanup(func() { _ = os.Chmod(s.dir, 0o700) })
	if os.WriteFile(filepath.Join(s.dir, "probe"), nil, 0o600) == nil {
		b.r.loops["general"].worker.shelf.dir = "/proc/none" // root writes everywhere
	}
	o := b.pilot()
	o.Spec.Guard.PendingP99 = "1s"
	require.NoError(t, b.c.Update(t.Context(), o))
	b.log(ledger.Event{Kind: ledger.KindArrive, UID: "waits", Pod: "shop/waits", App: "shop/app-0"})
	o = b.minutes(5, pilot.RolledBack, others)
	require.Equal(t, "RolledBack", o.Status.Phase, "%v %v", o.Status.Reasons, o.Status.Conditions)
	require.Contains(t, strings.Join(o.Status.Reasons, "; "), "the spec cannot be kept")
}

// Pods that wait while nothing is decided break the limit of what waits; those that waited before the step began
// count from then on.
func TestNothingDecided(t *testing.T) {
	for _, steps := range [][]v1alpha1.PilotStep{{{Mode: "canary", Percent: 50, For: "4h"}, {Mode: "live"}}, {{Mode: "live", For: "4h"}}} {
		b, _ := toShadow(t, func(s *v1alpha1.PolicyPilotSpec) { s.Guard.PendingP99, s.Rollout = "10m", steps })
		waits := func(uid string) {
			b.log(ledger.Event{Kind: ledger.KindArrive, UID: uid, Pod: "shop/" + uid, App: "shop/app-0"})
		}
		none := func() {}
		waits("before")
		b.minutes(1, pilot.RolledBack, none)
		waits("a")
		waits("b")
		o := b.minutes(12, pilot.RolledBack, none)
		require.NotEqual(t, "RolledBack", o.Status.Phase, "two have their own reasons")
		require.Equal(t, "NoDecision", conditionOf(o, v1alpha1.ConditionMeasured).Reason)
		waits("c")
		o = b.minutes(12, pilot.RolledBack, none)
		if steps[0].Mode == "canary" {
			require.Equal(t, "Canary", o.Status.Phase, "most pods are decided by another policy")
			continue
		}
		require.Equal(t, "RolledBack", o.Status.Phase, "%v %v", o.Status.Reasons, o.Status.Conditions)
		require.Contains(t, strings.Join(o.Status.Reasons, "; "), "seconds that a pod is pending (p99) is ")
	}
}

// The oldest policies leave the shelf, but none that the loop may need.
func TestPrunedPolicies(t *testing.T) {
	s, err := newShelf(t.TempDir())
	require.NoError(t, err)
	var digests []string
	for i := range keptPolicies + 5 {
		digests = append(digests, fmt.Sprintf("sha256:%03d", i))
		require.NoError(t, os.WriteFile(s.file(digests[i]), nil, 0o600))
		require.NoError(t, os.Chtimes(s.file(digests[i]), friday, friday.Add(time.Duration(i)*time.Minute)))
	}
	require.NoError(t, s.prune(digests[1], "", digests[3]))
	for i, d := range digests {
		_, err := os.Stat(s.file(d))
		require.Equal(t, i == 0 || i == 2 || i == 4, os.IsNotExist(err), d)
	}
}

// While a policy is in force that spreads pods, one that is retrained on the week before would have saved
// something on the newest days: that is a reason to train, and those days judge nothing.
func TestRegret(t *testing.T) {
	if testing.Short() {
		t.Skip("a step on one goroutine: the race detector has nothing to find")
	}
	b := newBench(t)
	var past bytes.Buffer
	ledgertest.Days(t, &past, friday.Truncate(day).Add(-9*day-time.Hour), friday, 1)
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "decisions.jsonl"), past.Bytes(), 0o600))
	h := b.policy("general")
	live := *h.policy
	live.Spec.Rule = &rule.Settings{Choice: rule.Choice{Name: "leastallocated"}}
	require.NoError(t, write(t.Context(), b.c, "general", h, &live, pilot.Rung{Mode: pilot.Live}, "general"))
	o := b.pilot()
	o.Spec.Guard.RegretPercent, o.Spec.Train.History = new(1.), 9
	require.NoError(t, b.c.Update(t.Context(), o))
	text, err := json.Marshal(pilot.State{Phase: pilot.Watching, Since: b.now, Begun: b.now, Stepped: b.now, Trained: b.now.Add(-time.Minute), InForce: live.Digest(), Confirmed: live.Digest()})
	require.NoError(t, err)
	o.Status.Memory = &runtime.RawExtension{Raw: text}
	require.NoError(t, b.c.Status().Update(t.Context(), o))
	b.now = b.now.Add(-30 * time.Second) // before the schedule
	var s pilot.State
	for range 20 {
		require.NoError(t, b.step())
		b.idle()
		require.NoError(t, json.Unmarshal(b.pilot().Status.Memory.Raw, &s))
		if s.Alarm != "" {
			break
		}
		b.now = b.now.Add(time.Second)
	}
	require.Equal(t, "regret", s.Alarm, "%v", b.r.loops["general"].worker.failed)
	require.Len(t, s.Burnt, 2)
	again, err := newWorker(b.r.loops["general"].worker.shelf, "leastallocated")
	require.NoError(t, err)
	require.Greater(t, again.regret.Saving.Low, 0.)
	require.Nil(t, withRegret(nil, again.regret, &s))
	other := &pilot.Drift{Changed: "x", At: b.now}
	require.Same(t, other, withRegret(other, again.regret, &pilot.State{InForce: "another"}))
	require.Same(t, other, withRegret(other, again.regret, &pilot.State{InForce: s.InForce, Trained: b.now.Add(day)}), "it is older than the last training")
}
