package control

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/internal/sheet/sheettest"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/ledger/ledgertest"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
)

var friday = time.Date(2026, 11, 6, 2, 59, 0, 0, time.UTC)

// A bench is a controller with an API server that stores objects only, and a clock.
type bench struct {
	t     *testing.T
	dir   string
	now   time.Time
	c     client.Client
	r     *reconciler
	calls interceptor.Funcs
	seq   int // of the last event of the log
	made  int // objects
}

func spec() v1alpha1.PolicyPilotSpec {
	return v1alpha1.PolicyPilotSpec{
		Policy: "general", Baseline: "leastallocated", Against: []string{"leastallocated"},
		Record: v1alpha1.PilotRecord{Log: "decisions.jsonl"},
		Train:  v1alpha1.PilotTraining{Schedule: "0 3 * * *", History: 4, Validate: 1, Test: 2, Evaluations: 2, Seeds: 1, Within: "12h", JudgeWithin: "2h"},
		Gate:   &v1alpha1.PilotGate{SavingPercent: 1, Confidence: .6, Unplaced: 1000, WaitPercent: 1000},
		Rollout: []v1alpha1.PilotStep{
			{Mode: "shadow", For: "10m"}, {Mode: "canary", Percent: 10, For: "10m"}, {Mode: "live", For: "10m"},
		},
		Guard:    v1alpha1.PilotGuard{Every: "1m", Rest: "1h", FallbackShare: new(.05)},
		Approval: v1alpha1.PilotManual,
	}
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, dir: t.TempDir(), now: friday}
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, batchv1.AddToScheme(scheme))
	o := &v1alpha1.PolicyPilot{ObjectMeta: metav1.ObjectMeta{Name: "general", UID: "u1", CreationTimestamp: metav1.NewTime(friday)}, Spec: spec()}
	general := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"featureVersion": int64(1), "model": "rule", "knowledge": "K0", "rule": map[string]any{"name": "worstfit"}, "mode": "shadow", "maxShareOfApp": .5,
	}}}
	general.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("PlacementPolicy"))
	general.SetName("general")
	b.c = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(o, general).WithStatusSubresource(o).Build(), interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			if b.calls.SubResourceUpdate != nil {
				return b.calls.SubResourceUpdate(ctx, c, sub, o, opts...)
			}
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if b.calls.Get != nil {
				if err := b.calls.Get(ctx, c, key, o, opts...); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if b.calls.List != nil {
				if err := b.calls.List(ctx, c, list, opts...); err != nil {
					return err
				}
			}
			return c.List(ctx, list, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			b.made++
			if o.GetUID() == "" { // as an API server does
				o.SetUID(types.UID(fmt.Sprint("made-", b.made)))
			}
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if b.calls.Patch != nil {
				return b.calls.Patch(ctx, c, o, patch, opts...)
			}
			return c.Patch(ctx, o, patch, opts...)
		},
	})
	b.restart()
	return b
}

// restart is a new process: nothing of the old one but files and objects is there.
func (b *bench) restart() {
	if b.r != nil {
		b.r.drop("general")
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	b.t.Cleanup(cancel)
	b.r = &reconciler{
		Options: Options{History: b.dir, State: b.dir, Namespace: "sigma-system"}, client: b.c, live: b.c, events: record.NewFakeRecorder(1000),
		now: func() time.Time { return b.now }, ctx: ctx, loops: map[string]*loop{},
	}
}

// record writes a log that ends now.
func (b *bench) record() {
	var past bytes.Buffer
	ledgertest.Days(b.t, &past, friday.Truncate(day).Add(-5*day-time.Hour), friday, 1)
	b.seq = bytes.Count(past.Bytes(), []byte("\n"))
	require.NoError(b.t, os.WriteFile(filepath.Join(b.dir, "decisions.jsonl"), past.Bytes(), 0o600))
}

func (b *bench) step() error {
	b.t.Helper()
	_, err := b.r.Reconcile(b.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "general"}})
	return err
}

func (b *bench) pilot() *v1alpha1.PolicyPilot {
	o := &v1alpha1.PolicyPilot{}
	require.NoError(b.t, b.c.Get(b.t.Context(), types.NamespacedName{Name: "general"}, o))
	return o
}

// until steps until a phase, and lets jobs end between two steps.
func (b *bench) until(phase pilot.Phase) *v1alpha1.PolicyPilot {
	b.t.Helper()
	var o *v1alpha1.PolicyPilot
	for range 1200 {
		require.NoError(b.t, b.step())
		if o = b.pilot(); o.Status.Phase == string(phase) {
			return o
		}
		b.now = b.now.Add(time.Second)
		time.Sleep(50 * time.Millisecond)
	}
	require.Failf(b.t, "the phase does not come", "%s, want %s: %v %v", o.Status.Phase, phase, o.Status.Reasons, o.Status.Conditions)
	return nil
}

func (b *bench) policy(name string) *held {
	h, err := read(b.t.Context(), b.c, name)
	require.NoError(b.t, err)
	return h
}

// A candidate is trained and judged, waits, and after approval comes to shadow; there it stays as long as
// nothing is measured of it. A process that is new goes on where the old one was.
func TestToShadow(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.step())
	o := b.pilot()
	require.Equal(t, "Recording", o.Status.Phase)
	require.Contains(t, conditionOf(o, v1alpha1.ConditionRecording).Message, "no such file")
	b.record()
	b.until(pilot.Training)
	b.restart()
	b.until(pilot.Judging)
	b.restart()
	o = b.until(pilot.AwaitingApproval)
	require.Greater(t, o.Status.Promised.Percent, 1.)
	text := b.page()
	require.Contains(t, text, "is better: it saves")
	require.Contains(t, text, "In the week from 2026-11-02 (4 days) the nodes in use cost")
	sheettest.Check(t, text)
	require.NotEmpty(t, o.Status.Candidate)
	for range 5 {
		b.now = b.now.Add(time.Hour)
		require.NoError(t, b.step())
	}
	require.Equal(t, "AwaitingApproval", b.pilot().Status.Phase)
	require.Nil(t, b.policy("general-candidate").object, "nothing is written before it is approved")

	o = b.pilot()
	o.Annotations = map[string]string{v1alpha1.ApprovedAnnotation: "sha256:another"}
	require.NoError(t, b.c.Update(t.Context(), o))
	require.NoError(t, b.step())
	require.Equal(t, "AwaitingApproval", b.pilot().Status.Phase, "another candidate is approved")
	o = b.pilot()
	o.Annotations[v1alpha1.ApprovedAnnotation] = o.Status.Candidate
	require.NoError(t, b.c.Update(t.Context(), o))

	// The status cannot be written: nothing is done.
	b.calls.SubResourceUpdate = func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
		return apierrors.NewServiceUnavailable("gone")
	}
	require.Error(t, b.step())
	require.Nil(t, b.policy("general-candidate").object)
	b.calls.SubResourceUpdate = nil

	require.NoError(t, b.step())
	require.Equal(t, "Shadow", b.pilot().Status.Phase)
	h := b.policy("general-candidate")
	require.Equal(t, pilot.Applied{Digest: o.Status.Candidate, Rung: pilot.Rung{Mode: pilot.Shadow}}, h.applied())
	by, _, _ := unstructured.NestedString(h.object.Object, "spec", "provenance", "pilot")
	require.Equal(t, "general", by)
	b.now = b.now.Add(12 * time.Hour)
	require.NoError(t, b.step())
	o = b.pilot()
	require.Equal(t, "Shadow", o.Status.Phase, "promoted without a measurement")
	require.Equal(t, "NotTakenUp", conditionOf(o, v1alpha1.ConditionMeasured).Reason)
	require.Equal(t, pilot.Applied{Digest: b.policy("general").policy.Digest(), Rung: pilot.Rung{Mode: pilot.Shadow}}, b.policy("general").applied())
}

// page is that of the pilot, which is the same on the volume.
func (b *bench) page() string {
	var m corev1.ConfigMap
	require.NoError(b.t, b.c.Get(b.t.Context(), types.NamespacedName{Namespace: "sigma-system", Name: "sigma-pilot-general"}, &m))
	require.Equal(b.t, "general", m.OwnerReferences[0].Name)
	file, err := os.ReadFile(filepath.Join(b.r.folder(b.pilot()), pageFile))
	require.NoError(b.t, err)
	require.Equal(b.t, string(file), m.Data["report.html"])
	return string(file)
}

func conditionOf(o *v1alpha1.PolicyPilot, kind string) metav1.Condition {
	i := slices.IndexFunc(o.Status.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
	if i < 0 {
		return metav1.Condition{}
	}
	return o.Status.Conditions[i]
}

func TestRefused(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.PolicyPilotSpec){
		`"0 0 31 2 *" never fires`:            func(s *v1alpha1.PolicyPilotSpec) { s.Train.Schedule = "0 0 31 2 *" },
		"train.schedule: expected":            func(s *v1alpha1.PolicyPilotSpec) { s.Train.Schedule = "weekly" },
		"there is no PlacementPolicy missing": func(s *v1alpha1.PolicyPilotSpec) { s.Policy = "missing" },
		"bestfitt":                            func(s *v1alpha1.PolicyPilotSpec) { s.Against = []string{"bestfitt"} },
		"Auto without a gate":                 func(s *v1alpha1.PolicyPilotSpec) { s.Approval, s.Gate = v1alpha1.PilotAuto, nil },
		"train.history: 3 days":               func(s *v1alpha1.PolicyPilotSpec) { s.Train.History = 3 },
	} {
		b := newBench(t)
		o := b.pilot()
		change(&o.Spec)
		require.NoError(t, b.c.Update(t.Context(), o))
		require.NoError(t, b.step())
		accepted := conditionOf(b.pilot(), v1alpha1.ConditionAccepted)
		require.Equal(t, metav1.ConditionFalse, accepted.Status, want)
		require.Contains(t, accepted.Message, want)
	}
	b := newBench(t)
	older := &v1alpha1.PolicyPilot{ObjectMeta: metav1.ObjectMeta{Name: "older", UID: "u0", CreationTimestamp: metav1.NewTime(friday.Add(-day))}, Spec: spec()}
	older.Spec.Policy, older.Spec.Candidate = "other", "general"
	require.NoError(t, b.c.Create(t.Context(), older))
	require.NoError(t, b.step())
	require.Contains(t, conditionOf(b.pilot(), v1alpha1.ConditionAccepted).Message, "the PolicyPilot older steers a PlacementPolicy of this one")
}

// What is written keeps what else a policy says, and is written once.
func TestWrite(t *testing.T) {
	b := newBench(t)
	h := b.policy("general")
	other := *h.policy
	other.Spec.Rule = &rule.Settings{Choice: rule.Choice{Name: "bestfit"}}
	require.NoError(t, write(t.Context(), b.c, "general", h, &other, pilot.Rung{Mode: pilot.Live}, "general"))
	h = b.policy("general")
	require.Equal(t, pilot.Applied{Digest: other.Digest(), Rung: pilot.Rung{Mode: pilot.Live}}, h.applied())
	require.Equal(t, .5, *h.policy.Spec.MaxShareOfApp)
	require.NoError(t, write(t.Context(), b.c, "general", h, &other, pilot.Rung{Mode: pilot.Live}, "general"))
	require.Equal(t, h.object.GetResourceVersion(), b.policy("general").object.GetResourceVersion())
	require.NoError(t, write(t.Context(), b.c, "general", h, nil, pilot.Rung{Mode: pilot.Shadow}, "general"))
	require.Equal(t, pilot.Shadow, b.policy("general").applied().Mode)
	require.Error(t, write(t.Context(), b.c, "general", h, nil, pilot.Rung{Mode: pilot.Canary, Percent: 5}, "general"), "it changed since it was read")
	require.Equal(t, "no scheduler has taken it up yet", h.taken())
}

// A panic of a job is its error, and a job that is stopped has no outcome.
func TestWorker(t *testing.T) {
	s, err := newShelf(t.TempDir())
	require.NoError(t, err)
	w, err := newWorker(s, "mostallocated")
	require.NoError(t, err)
	ended := make(chan error, 1)
	w.start(t.Context(), "train-1", func(context.Context) error { panic("oh") }, func(err error) { ended <- err })
	require.ErrorContains(t, <-ended, "panic: oh")
	require.Eventually(t, func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.job == "" }, time.Minute, time.Millisecond)
	stopped := make(chan bool)
	w.start(t.Context(), "train-2", func(ctx context.Context) error { <-ctx.Done(); close(stopped); return nil }, func(error) { t.Error("it has an outcome") })
	w.stop("train-2")
	w.stop("train-3")
	<-stopped
	_, err = w.policyOf("sha256:none")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.True(t, strings.HasPrefix(s.file("sha256:a"), s.dir))
}
