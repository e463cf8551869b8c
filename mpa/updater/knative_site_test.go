package updater

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/knative"
)

const knativeTick = 10 * time.Second

// A knativeSite is Knative's part of a cluster in virtual time: it makes Revisions of a Service's
// template, which become ready after a while, and leads its traffic to them. Beside it a recommender
// that has learned, and one updater or two.
type knativeSite struct {
	t       *testing.T
	clock   *testclock.FakeClock
	api     client.WithWatch // of users and Knative
	theirs  client.Client    // of the updaters
	events  *record.FakeRecorder
	leaders []*knatives
	random  *rand.Rand

	ours       knative.Setting // what was learned
	rate       float64         // requests a second
	starts     time.Duration   // of a Revision
	never      bool            // ours do not become ready
	lost, late float64         // shares of ours; of others none are lost, and lateBefore are late
	lateBefore float64
	learned    float64 // the rate that was learned later; 0 = that of ours
	// Of a Revision that has it: shares of lost and late.
	lostTried, lateTried float64
	silent               bool          // nothing is measured
	lag                  time.Duration // of the measurements
	away                 bool          // the API server, for the updaters
	refuses              bool          // it, the way back of a template
	update               func(next func() error) error

	revisions  []*knativeRevision
	made       string // the template of the last
	arms       map[string]*v1alpha1.Arm
	since      time.Time
	canaries   int
	promoted   string // the Revision
	split      int    // ticks
	lostAll    float64
	problems   []string
	seenEvents []string
}

type knativeRevision struct {
	name  string
	f     knative.Fields
	ready time.Time
	never bool
}

const knativeText = `apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: web, namespace: shop, uid: ksvc, generation: 1, annotations: {team: a}}
spec:
  template:
    metadata:
      annotations: {autoscaling.knative.dev/max-scale: "20"}
    spec:
      containerConcurrency: 0
      containers:
      - {name: user-container, image: example.com/web:1, resources: {limits: {cpu: 500m, memory: 256Mi}}}
  traffic:
  - {latestRevision: true, percent: 100}
`

func knativeWeb() *v1alpha1.MultidimPodAutoscaler {
	m := web(v1alpha1.ModeInPlaceOrRecreate)
	m.Spec.ScaleTargetRef = v1alpha1.TargetReference{APIVersion: "serving.knative.dev/v1", Kind: "Service", Name: "web"}
	m.Spec.Constraints = v1alpha1.Constraints{}
	m.Spec.SLO = &v1alpha1.SLO{Latency: &v1alpha1.LatencySLO{Percentile: 95, Target: metav1.Duration{Duration: 250 * time.Millisecond}}}
	m.Spec.Concurrency = &v1alpha1.Concurrency{Mode: v1alpha1.ConcurrencyApply, Pod: v1alpha1.PodKnative, Learner: "law+walk", Min: 1, Max: 310, Initial: 10}
	return m
}

func newKnativeSite(t *testing.T, random *rand.Rand) *knativeSite {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme)) // few: the fake API server walks all of the scheme repeatedly
	service := knative.New(knative.ServiceKind)
	require.NoError(t, yaml.Unmarshal([]byte(knativeText), &service.Object))
	text, err := json.Marshal(service.Object) // numbers as the API server's
	require.NoError(t, err)
	require.NoError(t, service.UnmarshalJSON(text))
	s := &knativeSite{
		t: t, clock: testclock.NewFakeClock(start), random: random, events: record.NewFakeRecorder(1000),
		ours: knative.Setting{Limit: 8, Rate: 40}, rate: 100, starts: 10 * time.Second, lateBefore: .2, late: .02,
	}
	s.update = func(next func() error) error { return next() }
	b := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.MultidimPodAutoscaler{}).WithObjects(service)
	// The API server counts changes of a spec.
	s.api = interceptor.NewClient(b.Build(), interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if u, ok := o.(*unstructured.Unstructured); ok && u.GetKind() == "Service" {
				live := knative.New(knative.ServiceKind)
				if err := c.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
					return err
				}
				u.SetGeneration(live.GetGeneration())
				if fmt.Sprint(u.Object["spec"]) != fmt.Sprint(live.Object["spec"]) {
					u.SetGeneration(live.GetGeneration() + 1)
				}
			}
			return c.Update(ctx, o, opts...)
		},
	})
	gone := func() error {
		if s.away {
			return apierrors.NewServiceUnavailable("the API server is away")
		}
		return nil
	}
	s.theirs = interceptor.NewClient(s.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := gone(); err != nil {
				return err
			}
			if key.Name == "" {
				return apierrors.NewBadRequest("resource name may not be empty")
			}
			return c.Get(ctx, key, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := gone(); err != nil {
				return err
			}
			if u, ok := o.(*unstructured.Unstructured); ok && s.refuses {
				if v, err := knative.Read(u); err != nil || !v.Fields.Equal(s.ours.Fields()) {
					return apierrors.NewBadRequest("changes without a name change")
				}
			}
			return s.update(func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := gone(); err != nil {
				return err
			}
			return s.update(func() error { return c.Patch(ctx, o, patch, opts...) })
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, a runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			if err := gone(); err != nil {
				return err
			}
			return c.SubResource(sub).Apply(ctx, a, opts...)
		},
	})
	require.NoError(t, s.api.Create(t.Context(), knativeWeb()))
	s.leaders = []*knatives{s.leader()}
	s.knative()
	return s
}

// leader is an updater that knows what is written and nothing else.
func (s *knativeSite) leader() *knatives {
	return &knatives{&updater{
		Options: Options{Workers: 1, Canary: knative.DefaultTiming()}, client: s.theirs, direct: s.theirs, clock: s.clock,
		events: s.events, metrics: newMetrics(), objects: map[types.NamespacedName]*object{},
	}}
}

func (s *knativeSite) service() *unstructured.Unstructured {
	u := knative.New(knative.ServiceKind)
	if err := s.api.Get(s.t.Context(), key, u); err != nil {
		require.True(s.t, apierrors.IsNotFound(err), err)
		return nil
	}
	return u
}

func (s *knativeSite) object() *v1alpha1.MultidimPodAutoscaler {
	m := &v1alpha1.MultidimPodAutoscaler{}
	if err := s.api.Get(s.t.Context(), key, m); err != nil {
		require.True(s.t, apierrors.IsNotFound(err), err)
		return nil
	}
	return m
}

func (s *knativeSite) state() knative.State {
	u := s.service()
	if u == nil {
		return knative.State{}
	}
	state, err := knative.StateOf(u)
	require.NoError(s.t, err)
	return state
}

// edit is what a user does to the Service.
func (s *knativeSite) edit(change func(u *unstructured.Unstructured)) {
	u := s.service()
	change(u)
	require.NoError(s.t, s.api.Update(s.t.Context(), u))
}

// image is a user's new image.
func image(u *unstructured.Unstructured) {
	list, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	list[0].(map[string]any)["image"] = "example.com/web:2"
	_ = unstructured.SetNestedSlice(u.Object, list, "spec", "template", "spec", "containers")
}

func (s *knativeSite) spec(change func(m *v1alpha1.MultidimPodAutoscaler)) {
	m := s.object()
	change(m)
	m.Generation++
	require.NoError(s.t, s.api.Update(s.t.Context(), m))
}

// isOurs reports whether a Revision has what was learned.
func (s *knativeSite) isOurs(r *knativeRevision) bool { return r.f.Equal(s.ours.Fields()) }

// knative is what Knative does within a tick: first what the status of the tick before asked for.
func (s *knativeSite) knative() {
	u := s.service()
	if u == nil {
		return
	}
	v, err := knative.Read(u)
	require.NoError(s.t, err)
	template, _, _ := unstructured.NestedMap(u.Object, "spec", "template")
	if text := fmt.Sprint(template); text != s.made {
		s.made = text
		r := &knativeRevision{name: fmt.Sprintf("web-%05d", len(s.revisions)+1), f: v.Fields, ready: s.clock.Now().Add(s.starts)}
		if len(s.revisions) == 0 {
			r.ready = s.clock.Now()
		}
		if s.isOurs(r) {
			s.canaries++
			r.never = s.never
		}
		s.revisions = append(s.revisions, r)
		o := knative.New(knative.RevisionKind)
		o.SetNamespace("shop")
		o.SetName(r.name)
		o.SetLabels(map[string]string{"serving.knative.dev/service": "web"})
		for _, part := range []string{"metadata", "spec"} {
			if part == "spec" {
				o.Object["spec"] = template["spec"]
			} else if m, ok := template["metadata"].(map[string]any); ok {
				a, _, _ := unstructured.NestedStringMap(m, "annotations")
				o.SetAnnotations(a)
			}
		}
		require.NoError(s.t, s.api.Create(s.t.Context(), o))
	}
	last := s.revisions[len(s.revisions)-1]
	ready := s.ready()
	condition := "True"
	if ready != last {
		condition = "Unknown"
		if last.never {
			condition = "False"
			o := knative.New(knative.RevisionKind)
			require.NoError(s.t, s.api.Get(s.t.Context(), client.ObjectKey{Namespace: "shop", Name: last.name}, o))
			o.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False", "reason": "ContainerMissing", "message": "no such image"}}}
			require.NoError(s.t, s.api.Update(s.t.Context(), o))
		}
	}
	before := fmt.Sprint(u.Object["status"])
	u.Object["status"] = map[string]any{
		"observedGeneration": u.GetGeneration(), "latestCreatedRevisionName": last.name,
		"conditions": []any{map[string]any{"type": "ConfigurationsReady", "status": condition}},
	}
	if ready != nil {
		_ = unstructured.SetNestedField(u.Object, ready.name, "status", "latestReadyRevisionName")
	}
	if fmt.Sprint(u.Object["status"]) == before {
		return
	}
	require.NoError(s.t, s.api.Update(s.t.Context(), u))
}

// ready is the latest Revision that is.
func (s *knativeSite) ready() *knativeRevision {
	for _, r := range slices.Backward(s.revisions) {
		if !r.never && !r.ready.After(s.clock.Now()) {
			return r
		}
	}
	return nil
}

// shares are what each Revision gets of the requests, in percent.
func (s *knativeSite) shares() map[*knativeRevision]int64 {
	u := s.service()
	if u == nil {
		return nil
	}
	v, err := knative.Read(u)
	require.NoError(s.t, err)
	shares := map[*knativeRevision]int64{}
	for _, t := range v.Traffic {
		to := s.ready()
		for _, r := range s.revisions {
			if r.name == t.Revision {
				to = r
			}
		}
		require.NotNil(s.t, to)
		shares[to] += t.Percent
	}
	return shares
}

// serve lets the requests of a tick come, and measures them.
func (s *knativeSite) serve() {
	shares := s.shares()
	if shares == nil {
		return
	}
	state := s.state()
	if len(shares) > 1 {
		s.split++
		if state.Phase != knative.Canary {
			s.problems = append(s.problems, fmt.Sprintf("%v: the traffic is split in phase %q", s.clock.Now(), state.Phase))
		}
	}
	ours := 0
	for r, percent := range shares {
		n := s.rate * float64(percent) / 100 * knativeTick.Seconds()
		arm := v1alpha1.Arm{Revision: r.name, Requests: n, Late: s.lateBefore * n, PodSeconds: knativeTick.Seconds() * max(1, float64(percent)/10)}
		if s.isOurs(r) {
			ours++
			arm.Lost, arm.Late = s.lost*n, s.late*(1-s.lost)*n
			if state.Phase == knative.Promoted {
				s.promoted = r.name
			}
			if percent > state.Percent() && s.promoted != r.name {
				s.problems = append(s.problems, fmt.Sprintf("%v: %s has %d %% in phase %q", s.clock.Now(), r.name, percent, state.Phase))
			}
		}
		s.tried(r, n, &arm)
		if r.never || r.ready.After(s.clock.Now()) {
			s.problems = append(s.problems, r.name+" gets requests and is not ready")
			arm.Lost = n
		}
		s.lostAll += arm.Lost
		if sum := s.arms[r.name]; sum != nil {
			sum.Requests, sum.Lost, sum.Late, sum.PodSeconds = sum.Requests+arm.Requests, sum.Lost+arm.Lost, sum.Late+arm.Late, sum.PodSeconds+arm.PodSeconds
		}
	}
	if ours > 1 {
		s.problems = append(s.problems, "several Revisions of ours")
	}
	s.measure(&state)
}

// step lets a tick pass; then each leader acts.
func (s *knativeSite) step() {
	s.clock.Step(knativeTick)
	s.knative()
	s.serve()
	for _, l := range s.leaders {
		s.act(l)
		if shares := s.shares(); len(shares) > 1 && s.state().Phase != knative.Canary {
			s.problems = append(s.problems, "a step leaves the traffic split")
		}
	}
	for len(s.events.Events) > 0 {
		s.seenEvents = append(s.seenEvents, <-s.events.Events)
	}
}

func (s *knativeSite) act(l *knatives) {
	_, err := l.Reconcile(s.t.Context(), reconcile.Request{NamespacedName: key})
	if err != nil && !s.away && !strings.Contains(err.Error(), "killed") {
		require.NoError(s.t, err)
	}
}

func (s *knativeSite) steady(d time.Duration) {
	for range d / knativeTick {
		s.step()
	}
}

// until steps until something is so, at most for an hour.
func (s *knativeSite) until(is func() bool) {
	for range time.Hour / knativeTick {
		if is() {
			return
		}
		s.step()
	}
	s.t.Fatalf("it never came: %+v\n%s", s.state(), strings.Join(s.seenEvents, "\n"))
}

func (s *knativeSite) phase(p knative.Phase) { s.until(func() bool { return s.state().Phase == p }) }
