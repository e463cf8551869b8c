package updater

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

var start = time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)

var key = types.NamespacedName{Namespace: "shop", Name: "web"}

// A world is an updater, or one after the other, and a cluster that knows no
// controllers or kubelets: Deployment web has two pods.
type world struct {
	*updater
	t      *testing.T
	clock  *testclock.FakeClock
	api    client.WithWatch // of everybody else
	theirs client.Client    // of the updater
	// around stands between the updater and what changes something: status, scale,
	// resize, eviction.
	around  func(call string, next func() error) error
	changes []string // that were made
}

func newWorld(t *testing.T, mode v1alpha1.Mode) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{ // the fake API server walks all of it again and again
		corev1.AddToScheme, appsv1.AddToScheme, autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, policyv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	w := &world{t: t, clock: testclock.NewFakeClock(start)}
	w.around = func(_ string, next func() error) error { return next() }
	do := func(call string, next func() error) error {
		return w.around(call, func() error {
			err := next()
			if err == nil && call != "status" {
				w.changes = append(w.changes, call)
			}
			return err
		})
	}
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.MultidimPodAutoscaler{}).
		WithObjects(deployment(2), replicaSet(), pod(0), pod(1), node("a"), node("b")).Build()
	w.theirs = interceptor.NewClient(w.api, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return do(sub, func() error {
				if sub == "resize" {
					return c.Patch(ctx, o, p)
				}
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			})
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return do(sub, func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, s client.Object, opts ...client.SubResourceCreateOption) error {
			return do(sub, func() error { return c.SubResource(sub).Create(ctx, o, s, opts...) })
		},
	})
	require.NoError(t, w.api.Create(t.Context(), web(mode)))
	w.restart()
	return w
}

// restart makes another updater, which knows nothing.
func (w *world) restart() {
	w.updater = &updater{
		Options: Options{Scalings: 12, Resizes: 6, EvictAfter: 5 * time.Minute, Workers: 1}, client: w.theirs, direct: w.theirs, clock: w.clock,
		events: record.NewFakeRecorder(1000), metrics: newMetrics(), objects: map[types.NamespacedName]*object{},
	}
}

func web(mode v1alpha1.Mode) *v1alpha1.MultidimPodAutoscaler {
	return &v1alpha1.MultidimPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "mpa", Generation: 1},
		Spec: v1alpha1.MultidimPodAutoscalerSpec{
			ScaleTargetRef: v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, Mode: mode,
			Constraints: v1alpha1.Constraints{
				Replicas:   v1alpha1.ReplicaRange{Min: 1, Max: 10},
				Containers: []v1alpha1.ContainerConstraints{{Name: "web", Controlled: []corev1.ResourceName{"cpu", "memory"}}},
			},
		},
	}
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func deployment(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "deployment"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{Spec: pod(0).Spec},
		},
	}
}

func ownedBy(apiVersion, kind, name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(true)}}
}

func replicaSet() *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-1", UID: "set", Labels: map[string]string{"app": "web"},
		OwnerReferences: ownedBy("apps/v1", "Deployment", "web", "deployment"),
	}}
}

// pod is an hour old.
func pod(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("web-1-%d", i), UID: types.UID(fmt.Sprint("pod", i)),
			CreationTimestamp: metav1.NewTime(start.Add(-time.Hour)),
			Labels:            map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: "1"},
			OwnerReferences:   ownedBy("apps/v1", "ReplicaSet", "web-1", "set"),
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", Resources: corev1.ResourceRequirements{Requests: amounts("500m", "512Mi"), Limits: amounts("1", "512Mi")},
		}}, NodeName: "a"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Resources: &corev1.ResourceRequirements{
				Requests: amounts("500m", "512Mi"), Limits: amounts("1", "512Mi"),
			}}},
		},
	}
}

func node(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Allocatable = amounts("4", "8Gi")
	n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
	return n
}

func (w *world) object() *v1alpha1.MultidimPodAutoscaler {
	w.t.Helper()
	m := &v1alpha1.MultidimPodAutoscaler{}
	require.NoError(w.t, w.api.Get(w.t.Context(), key, m))
	return m
}

func (w *world) actuation() *v1alpha1.Actuation {
	w.t.Helper()
	a := w.object().Status.Actuation
	require.NotNil(w.t, a)
	return a
}

func (w *world) able() string {
	w.t.Helper()
	c := meta.FindStatusCondition(w.object().Status.Conditions, v1alpha1.ConditionAble)
	require.NotNil(w.t, c)
	return c.Reason
}

// recommend writes a recommendation of this moment.
func (w *world) recommend(id int64, replicas int32, cpu string, edit ...func(*v1alpha1.Recommendation)) {
	w.t.Helper()
	m := w.object()
	r := &v1alpha1.Recommendation{ID: id, Time: metav1.NewMicroTime(w.clock.Now()), Change: v1alpha1.ChangeReplicas, Replicas: replicas}
	if cpu != "" {
		c := resource.MustParse(cpu)
		r.Change, r.Containers = v1alpha1.ChangeRequests, []v1alpha1.ContainerRequests{{Name: "web", CPU: &c}}
	}
	for _, e := range edit {
		e(r)
	}
	m.Status.Recommendation = r
	require.NoError(w.t, w.api.Status().Update(w.t.Context(), m))
}

// reconcile until there is nothing to do at this moment.
func (w *world) reconcile() error {
	w.t.Helper()
	for range 5 {
		result, err := w.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: key})
		if err != nil {
			return err
		}
		if result.RequeueAfter == 0 || result.RequeueAfter > time.Second {
			break
		}
	}
	return nil
}

func (w *world) settle() {
	w.t.Helper()
	require.NoError(w.t, w.reconcile())
}

func (w *world) replicas() int32 {
	w.t.Helper()
	d := &appsv1.Deployment{}
	require.NoError(w.t, w.api.Get(w.t.Context(), key, d))
	return *d.Spec.Replicas
}

func (w *world) pods() []corev1.Pod {
	w.t.Helper()
	var l corev1.PodList
	require.NoError(w.t, w.api.List(w.t.Context(), &l))
	return l.Items
}

// kubelet has done, or says of, all resizes.
func (w *world) kubelet(reason string) {
	w.t.Helper()
	for _, p := range w.pods() {
		p.Status.Conditions = p.Status.Conditions[:1]
		if reason == "" {
			p.Status.ContainerStatuses[0].Resources = p.Spec.Containers[0].Resources.DeepCopy()
		} else {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason, Message: "so says the node", LastTransitionTime: metav1.NewTime(w.clock.Now()),
			})
		}
		require.NoError(w.t, w.api.Status().Update(w.t.Context(), &p))
	}
}

// An updater that dies before or after any of its writes leaves something behind from
// which the next comes to the same end, with everything done once.
func TestKilledAnywhere(t *testing.T) {
	type died struct{}
	for _, change := range []string{"replicas", "requests", "eviction"} {
		script := func(w *world) {
			switch change {
			case "replicas":
				w.recommend(1, 5, "")
			case "requests", "eviction":
				w.recommend(1, 2, "300m")
			}
		}
		run := func(t *testing.T, at int, after bool) (*world, int) {
			w := newWorld(t, v1alpha1.ModeInPlaceOrRecreate)
			calls := 0
			w.around = func(_ string, next func() error) error {
				calls++
				if calls == at && !after {
					panic(died{})
				}
				err := next()
				if calls == at && after {
					panic(died{})
				}
				return err
			}
			live := func() {
				defer func() {
					if p := recover(); p != nil {
						require.Equal(t, died{}, p)
						w.restart()
					}
				}()
				w.settle()
			}
			script(w)
			for range 3 {
				live()
			}
			if change == "eviction" {
				w.kubelet(corev1.PodReasonInfeasible)
				live()
				live()
			} else {
				w.kubelet("")
			}
			live()
			live()
			return w, calls
		}
		whole, calls := run(t, 0, false)
		want := whole.actuation()
		require.GreaterOrEqual(t, calls, 3, change)
		for at := 1; at <= calls; at++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/%v", change, at, after), func(t *testing.T) {
					w, _ := run(t, at, after)
					got := w.actuation()
					assert.Equal(t, whole.changes, w.changes)
					assert.Equal(t, want.Outcome, got.Outcome)
					assert.Len(t, got.Scalings, len(want.Scalings))
					assert.Len(t, got.Resizes, len(want.Resizes))
					assert.Equal(t, whole.replicas(), w.replicas())
					if change == "eviction" { // counted before it is done
						assert.GreaterOrEqual(t, got.Evicted, want.Evicted)
					}
				})
			}
		}
	}
}

// What is refused, and what the status says of it.
func TestRefuses(t *testing.T) {
	at := func(d time.Duration) func(*v1alpha1.Recommendation) {
		return func(r *v1alpha1.Recommendation) { r.Time = metav1.NewMicroTime(start.Add(d)) }
	}
	create := func(o client.Object) func(*world) {
		return func(w *world) { require.NoError(w.t, w.api.Create(w.t.Context(), o)) }
	}
	scale := func(n int32) func(*world) {
		return func(w *world) { require.NoError(w.t, w.api.Update(w.t.Context(), deployment(n))) }
	}
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other"}}
	hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	other := hpa.DeepCopy()
	other.Spec.ScaleTargetRef.Name = "shop"
	older := web(v1alpha1.ModeInPlace)
	older.Name, older.UID = "a", "mpa2"
	younger := older.DeepCopy()
	younger.CreationTimestamp = metav1.NewTime(start.Add(time.Hour))
	off := older.DeepCopy()
	off.Spec.Mode = v1alpha1.ModeOff
	for _, c := range []struct {
		name     string
		prepare  func(*world)
		edit     func(*v1alpha1.Recommendation)
		outcome  v1alpha1.Outcome
		able     string
		replicas int32
	}{
		{name: "nothing against it", outcome: v1alpha1.OutcomeApplied, able: "Applied", replicas: 5},
		{name: "just young enough", edit: at(-2 * time.Minute), outcome: v1alpha1.OutcomeApplied, able: "Applied", replicas: 5},
		{name: "too old", edit: at(-2*time.Minute - 1), outcome: v1alpha1.OutcomeExpired, able: "Expired", replicas: 2},
		{name: "a clock a little ahead", edit: at(time.Minute), outcome: v1alpha1.OutcomeApplied, able: "Applied", replicas: 5},
		{name: "of tomorrow", edit: at(24 * time.Hour), outcome: v1alpha1.OutcomeRefused, able: "Refused", replicas: 2},
		{name: "of other replicas", edit: func(r *v1alpha1.Recommendation) { r.From = 3 }, outcome: v1alpha1.OutcomeSuperseded, able: "Superseded", replicas: 2},
		{name: "from these", edit: func(r *v1alpha1.Recommendation) { r.From = 2 }, outcome: v1alpha1.OutcomeApplied, able: "Applied", replicas: 5},
		{name: "above max", edit: func(r *v1alpha1.Recommendation) { r.Replicas = 1 << 30 }, outcome: v1alpha1.OutcomeApplied, able: "Applied", replicas: 10},
		{name: "zero", edit: func(r *v1alpha1.Recommendation) { r.Replicas = 0 }, outcome: v1alpha1.OutcomeRefused, able: "Refused", replicas: 2},
		{name: "an HPA", prepare: create(hpa), outcome: v1alpha1.OutcomeRefused, able: "OtherAutoscaler", replicas: 2},
		{name: "an HPA of something else", prepare: create(other), outcome: v1alpha1.OutcomeApplied, able: "Applied", replicas: 5},
		{name: "a younger MPA", prepare: create(younger), outcome: v1alpha1.OutcomeApplied, able: "Applied", replicas: 5},
		{name: "an older MPA", prepare: create(older), outcome: v1alpha1.OutcomeRefused, able: "OtherAutoscaler", replicas: 2},
		{name: "another MPA that is off", prepare: create(off), outcome: v1alpha1.OutcomeApplied, able: "Applied", replicas: 5},
		{name: "switched off", prepare: scale(0), outcome: v1alpha1.OutcomeRefused, able: "SwitchedOff", replicas: 0},
		{name: "refused by the recommender", prepare: func(w *world) {
			m := w.object()
			m.Status.Phase = v1alpha1.PhaseRefused
			require.NoError(w.t, w.api.Status().Update(w.t.Context(), m))
		}, outcome: v1alpha1.OutcomeRefused, able: "RecommenderRefused", replicas: 2},
		{name: "failing pods", prepare: func(w *world) {
			d := deployment(2)
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota"}}
			require.NoError(w.t, w.api.Status().Update(w.t.Context(), d))
		}, outcome: v1alpha1.OutcomeApplied, able: "FailedCreate", replicas: 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, v1alpha1.ModeInPlace)
			if c.prepare != nil {
				c.prepare(w)
			}
			edit := func(*v1alpha1.Recommendation) {}
			if c.edit != nil {
				edit = c.edit
			}
			w.recommend(1, 5, "", edit)
			w.settle()
			assert.Equal(t, c.outcome, w.actuation().Outcome, w.actuation().Message)
			assert.Equal(t, c.able, w.able())
			assert.Equal(t, c.replicas, w.replicas())
			w.settle()
			assert.LessOrEqual(t, len(w.changes), 1, "once")
		})
	}
}

func TestModes(t *testing.T) {
	for _, c := range []struct {
		mode v1alpha1.Mode
		want []string
	}{
		{v1alpha1.ModeOff, nil},
		{v1alpha1.ModeInitial, []string{"scale"}},
		{v1alpha1.ModeInPlace, []string{"scale", "resize", "resize"}},
		{v1alpha1.ModeInPlaceOrRecreate, []string{"scale", "resize", "resize", "eviction"}},
		{v1alpha1.ModeRecreate, []string{"scale", "eviction"}},
	} {
		t.Run(string(c.mode), func(t *testing.T) {
			w := newWorld(t, c.mode)
			w.recommend(1, 3, "")
			w.settle()
			require.NoError(t, w.api.Update(t.Context(), deployment(2)))
			w.recommend(2, 2, "300m")
			w.settle()
			for range 3 { // a node that cannot, for hours
				w.kubelet(corev1.PodReasonInfeasible)
				w.clock.Step(time.Hour)
				w.settle()
			}
			assert.Equal(t, c.want, w.changes)
			if c.mode == v1alpha1.ModeOff {
				assert.Nil(t, w.object().Status.Actuation)
			}
		})
	}
}

// Twelve changes of replicas and six of requests in any hour, whatever is recommended, whoever
// restarts, wherever the recommender's clock is.
func TestLimits(t *testing.T) {
	for _, skew := range []time.Duration{0, 2 * time.Minute, -2 * time.Minute, time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			w := newWorld(t, v1alpha1.ModeInPlace)
			type change struct {
				at   time.Duration
				kind string
			}
			var made []change
			for i := range int64(45) { // an hour and a half
				before := len(w.changes)
				tilt := func(r *v1alpha1.Recommendation) {
					if i%7 > 2 {
						r.Time = metav1.NewMicroTime(w.clock.Now().Add(skew))
					}
				}
				if i%2 == 0 {
					w.recommend(i+1, 2+int32(i%3), "", tilt)
				} else {
					w.recommend(i+1, 2, fmt.Sprintf("%dm", 300+i), tilt)
				}
				w.settle()
				w.kubelet("")
				w.settle()
				if len(w.changes) > before {
					made = append(made, change{w.clock.Now().Sub(start), w.changes[before]})
				}
				if i%10 == 9 {
					w.restart()
				}
				w.clock.Step(2 * time.Minute)
			}
			for i := range made {
				n := 0
				for _, later := range made[i:] {
					// A recommendation counts from its decision, of at most two minutes before.
					if later.kind == made[i].kind && later.at <= made[i].at+time.Hour-2*time.Minute {
						n++
					}
				}
				require.LessOrEqual(t, n, map[string]int{"scale": 12, "resize": 6}[made[i].kind], made)
			}
			require.GreaterOrEqual(t, len(made), 10)
		})
	}
}

// TestBoundBelowUse: a bound that is lowered below the memory in use does not take it away.
func TestBoundBelowUse(t *testing.T) {
	for _, c := range []struct{ peak, want string }{{"400Mi", "480Mi"}, {"100Mi", "256Mi"}, {"", "256Mi"}} {
		w := newWorld(t, v1alpha1.ModeInPlace)
		m := w.object()
		bound := resource.MustParse("256Mi")
		m.Spec.Constraints.Containers[0].MaxAllowed.Memory = &bound
		require.NoError(t, w.api.Update(t.Context(), m))
		if c.peak != "" {
			m.Status.Memory = &v1alpha1.Memory{Containers: []v1alpha1.ContainerMemory{{
				Name: "web", Peaks: []v1alpha1.Peak{{Memory: resource.MustParse(c.peak)}, {Memory: resource.MustParse("1Mi")}},
			}}}
			require.NoError(t, w.api.Status().Update(t.Context(), m))
		}
		w.recommend(1, 2, "500m", func(r *v1alpha1.Recommendation) {
			memory := resource.MustParse("480Mi") // what the recommender's guard leaves of 512Mi
			r.Containers[0].Memory = &memory
		})
		w.settle()
		require.Equal(t, c.want, w.pods()[0].Spec.Containers[0].Resources.Requests.Memory().String(), c.peak)
	}
}

// TestClockSetBack: what was counted before the clock was set back counts for an hour from then.
func TestClockSetBack(t *testing.T) {
	w := newWorld(t, v1alpha1.ModeInPlace)
	for i := range int64(12) {
		w.recommend(i+1, 3+int32(i%2), "")
		w.settle()
		w.clock.Step(time.Minute)
	}
	require.Len(t, w.actuation().Scalings, 12)
	w.clock.SetTime(start.Add(-24 * time.Hour))
	w.recommend(13, 6, "")
	w.settle()
	require.Equal(t, v1alpha1.OutcomeRefused, w.actuation().Outcome, "the limit holds")
	w.clock.Step(61 * time.Minute)
	w.recommend(14, 6, "")
	w.settle()
	require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome, w.actuation().Message)
	require.Equal(t, int32(6), w.replicas())
}

// TestOffForgets: nobody waits for the pods of an object that was switched off.
func TestOffForgets(t *testing.T) {
	w := newWorld(t, v1alpha1.ModeInPlace)
	w.recommend(1, 2, "300m")
	w.settle()
	w.kubelet(corev1.PodReasonDeferred)
	w.settle()
	require.NotZero(t, testutil.CollectAndCount(w.metrics.pods))
	o := w.object()
	o.Spec.Mode = v1alpha1.ModeOff
	require.NoError(t, w.api.Update(t.Context(), o))
	w.settle()
	require.Zero(t, testutil.CollectAndCount(w.metrics.pods))
	o = w.object()
	o.Spec.Mode = v1alpha1.ModeInPlace
	require.NoError(t, w.api.Update(t.Context(), o))
	w.settle()
	require.Len(t, w.actuation().Resizes, 1, "nothing is counted anew")
}

// Sizes of before a time in mode Off are not those of now: nothing checks them against what
// was used meanwhile.
func TestOffEndsSizes(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w := newWorld(t, v1alpha1.ModeInPlace)
		w.recommend(1, 2, "300m")
		w.settle()
		w.kubelet("")
		w.settle()
		require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome)
		turn := func(mode v1alpha1.Mode) {
			o := w.object()
			o.Spec.Mode = mode
			require.NoError(t, w.api.Update(t.Context(), o))
			w.settle()
		}
		if restart {
			w.restart()
		}
		turn(v1alpha1.ModeOff)
		require.Nil(t, w.actuation().Sizes)
		require.Nil(t, meta.FindStatusCondition(w.object().Status.Conditions, v1alpha1.ConditionAble), "of a mode that acted")
		require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome)
		// Its pods are made anew, from the template.
		for i, p := range w.pods() {
			require.NoError(t, w.api.Delete(t.Context(), &p))
			require.NoError(t, w.api.Create(t.Context(), pod(i)))
		}
		w.changes = nil
		turn(v1alpha1.ModeInPlace)
		require.Empty(t, w.changes)
		w.recommend(2, 2, "400m")
		w.settle()
		require.Equal(t, []string{"resize", "resize"}, w.changes)
	}
}

// What passes is tried again, for as long as the decision is young.
func TestRetries(t *testing.T) {
	passing := []error{
		apierrors.NewTimeoutError("too slow", 1), apierrors.NewServerTimeout(v1alpha1.Resource("x"), "update", 1), apierrors.NewInternalError(fmt.Errorf("etcd")),
		apierrors.NewTooManyRequests("busy", 1), apierrors.NewServiceUnavailable("away"), context.DeadlineExceeded, fmt.Errorf("connection refused"),
	}
	t.Run("scale", func(t *testing.T) {
		w := newWorld(t, v1alpha1.ModeInPlace)
		var fail error
		w.around = func(call string, next func() error) error {
			if call == "scale" && fail != nil {
				return fail
			}
			return next()
		}
		w.recommend(1, 5, "")
		for _, fail = range passing {
			require.Error(t, w.reconcile())
			require.Equal(t, "Retrying", w.able())
			require.Equal(t, v1alpha1.OutcomePartly, w.actuation().Outcome)
			w.clock.Step(10 * time.Second)
		}
		fail = nil
		w.settle()
		require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome)
		require.Len(t, w.actuation().Scalings, 1)

		w.recommend(2, 7, "")
		fail = passing[0]
		require.Error(t, w.reconcile())
		w.clock.Step(3 * time.Minute)
		w.restart()
		fail = nil
		w.settle()
		require.Equal(t, v1alpha1.OutcomeExpired, w.actuation().Outcome)
		require.EqualValues(t, 5, w.replicas())
	})
	t.Run("conflict", func(t *testing.T) {
		w := newWorld(t, v1alpha1.ModeInPlace)
		calls := 0
		w.around = func(call string, next func() error) error {
			if calls++; call == "scale" && calls < 4 {
				return apierrors.NewConflict(appsv1.Resource("deployments"), "web", fmt.Errorf("changed"))
			}
			return next()
		}
		w.recommend(1, 5, "")
		w.settle()
		require.EqualValues(t, 5, w.replicas())
	})
	t.Run("scaled by somebody else meanwhile", func(t *testing.T) {
		w := newWorld(t, v1alpha1.ModeInPlace)
		w.around = func(call string, next func() error) error {
			err := next()
			if call == "status" {
				require.NoError(t, w.api.Update(t.Context(), deployment(4)))
			}
			return err
		}
		w.recommend(1, 5, "")
		w.settle()
		require.Equal(t, v1alpha1.OutcomeSuperseded, w.actuation().Outcome)
		require.EqualValues(t, 4, w.replicas())
	})
	t.Run("requests too old", func(t *testing.T) {
		w := newWorld(t, v1alpha1.ModeInPlace)
		w.recommend(1, 2, "300m")
		w.clock.Step(2*time.Minute + time.Second)
		w.settle()
		require.Equal(t, v1alpha1.OutcomeExpired, w.actuation().Outcome)
		require.Empty(t, w.changes)
	})
	t.Run("refused", func(t *testing.T) {
		w := newWorld(t, v1alpha1.ModeInPlace)
		calls := 0
		w.around = func(call string, next func() error) error {
			if call == "resize" {
				calls++
				return apierrors.NewForbidden(corev1.Resource("pods"), "web", fmt.Errorf("exceeded quota: tight"))
			}
			return next()
		}
		w.recommend(1, 2, "900m")
		for range 10 {
			w.settle()
			w.clock.Step(20 * time.Second)
		}
		require.Equal(t, 2, calls, "each pod once in five minutes")
		require.Equal(t, v1alpha1.OutcomeRefused, w.actuation().Outcome)
		require.Contains(t, w.actuation().Message, "exceeded quota: tight")
		w.clock.Step(5 * time.Minute)
		w.around = func(_ string, next func() error) error { return next() }
		w.settle()
		w.kubelet("")
		w.settle()
		require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome)
	})
}

// Pods are evicted one at a time, of two at least, while the others are ready, and only
// if there is room.
func TestEviction(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(*testing.T, *world)
		wait    time.Duration
		reason  string
		want    int32
		says    string
	}{
		{name: "infeasible", reason: corev1.PodReasonInfeasible, want: 1},
		{name: "deferred", reason: corev1.PodReasonDeferred, wait: 5 * time.Minute, want: 1},
		{name: "deferred lately", reason: corev1.PodReasonDeferred, wait: 5*time.Minute - 1, says: "so says the node"},
		{name: "another is not ready", reason: corev1.PodReasonInfeasible, prepare: func(t *testing.T, w *world) {
			p := w.pods()[1]
			p.Status.Conditions[0].Status = corev1.ConditionFalse
			require.NoError(t, w.api.Status().Update(t.Context(), &p))
		}, says: "once all others are ready"},
		{name: "one replica", reason: corev1.PodReasonInfeasible, prepare: func(t *testing.T, w *world) {
			require.NoError(t, w.api.Update(t.Context(), deployment(1)))
			require.NoError(t, w.api.Delete(t.Context(), pod(1)))
		}, says: "there is no other"},
		{name: "fewer pods than replicas", reason: corev1.PodReasonInfeasible, prepare: func(t *testing.T, w *world) {
			require.NoError(t, w.api.Update(t.Context(), deployment(3)))
		}, says: "once all others are ready"},
		{name: "a rollout", reason: corev1.PodReasonInfeasible, prepare: func(t *testing.T, w *world) {
			d := deployment(2)
			d.Status.Replicas, d.Status.UpdatedReplicas = 2, 1
			require.NoError(t, w.api.Status().Update(t.Context(), d))
		}, says: "once all others are ready"},
		{name: "no other node", reason: corev1.PodReasonInfeasible, prepare: func(t *testing.T, w *world) {
			require.NoError(t, w.api.Delete(t.Context(), node("b")))
		}, says: "no other node has room"},
		{name: "a small node", reason: corev1.PodReasonInfeasible, prepare: func(t *testing.T, w *world) {
			b := node("b")
			b.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("899m")
			require.NoError(t, w.api.Status().Update(t.Context(), b))
		}, says: "no other node has room"},
		{name: "a tainted node", reason: corev1.PodReasonInfeasible, prepare: func(t *testing.T, w *world) {
			b := node("b")
			b.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
			require.NoError(t, w.api.Update(t.Context(), b))
		}, says: "no other node has room"},
		{name: "a full node", reason: corev1.PodReasonInfeasible, prepare: func(t *testing.T, w *world) {
			p := pod(7)
			p.Labels, p.Spec.NodeName = nil, "b"
			p.Spec.Containers[0].Resources.Requests = amounts("3500m", "1Gi")
			p.Status.ContainerStatuses = nil
			require.NoError(t, w.api.Create(t.Context(), p))
		}, says: "no other node has room"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, v1alpha1.ModeInPlaceOrRecreate)
			w.recommend(1, 2, "900m")
			w.settle()
			w.kubelet(c.reason)
			if c.prepare != nil {
				c.prepare(t, w)
			}
			w.clock.Step(c.wait)
			for range 3 { // nobody replaces what was evicted
				w.settle()
			}
			assert.Equal(t, c.want, w.actuation().Evicted)
			if c.says != "" {
				assert.Contains(t, meta.FindStatusCondition(w.object().Status.Conditions, v1alpha1.ConditionResize).Message, c.says)
			}
		})
	}

	// However often it is in vain: as many as there were.
	w := newWorld(t, v1alpha1.ModeInPlaceOrRecreate)
	w.recommend(1, 2, "900m")
	for i := range 20 {
		w.settle()
		w.kubelet(corev1.PodReasonInfeasible)
		for len(w.pods()) < 2 {
			p := pod(10 + i) // an hour old by a clock that is late
			require.NoError(t, w.api.Create(t.Context(), p))
		}
		w.clock.Step(time.Minute)
	}
	assert.EqualValues(t, 2, w.actuation().Evicted)

	// A budget that says no is not counted, and not the end.
	w = newWorld(t, v1alpha1.ModeInPlaceOrRecreate)
	allowed := false
	w.around = func(call string, next func() error) error {
		if call == "eviction" && !allowed {
			return apierrors.NewTooManyRequests("disruption budget", 0)
		}
		return next()
	}
	w.recommend(1, 2, "900m")
	w.settle()
	w.kubelet(corev1.PodReasonInfeasible)
	for range 5 {
		w.settle()
	}
	assert.Zero(t, w.actuation().Evicted)
	assert.Len(t, w.pods(), 2)
	allowed = true
	w.settle()
	assert.EqualValues(t, 1, w.actuation().Evicted)
}

// Containers that restart to be resized do so one by one, while all pods are ready.
func TestRestartsOneByOne(t *testing.T) {
	w := newWorld(t, v1alpha1.ModeInPlace)
	for _, p := range w.pods() {
		p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
		require.NoError(t, w.api.Update(t.Context(), &p))
	}
	w.recommend(1, 2, "900m")
	for range 3 {
		w.settle()
		w.clock.Step(time.Second)
	}
	require.Equal(t, []string{"resize"}, w.changes)
	require.Equal(t, v1alpha1.OutcomePartly, w.actuation().Outcome)
	w.kubelet("")
	w.settle()
	require.Equal(t, []string{"resize", "resize"}, w.changes)
	w.kubelet("")
	w.settle()
	require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome)
}

// A recommendation that is rewritten under the same id changes nothing.
func TestSameID(t *testing.T) {
	w := newWorld(t, v1alpha1.ModeInPlace)
	w.recommend(1, 2, "300m")
	w.settle()
	w.kubelet("")
	w.settle()
	for i := range 10 {
		w.recommend(1, 2, fmt.Sprintf("%dm", 400+10*i))
		w.settle()
	}
	require.Len(t, w.changes, 2)
	w.recommend(2, 4, "")
	w.settle()
	for i := range int32(10) {
		w.recommend(2, 3+i%4, "")
		w.settle()
	}
	require.Len(t, w.changes, 3)
	require.EqualValues(t, 4, w.replicas())
}

// A pod that comes without its size gets it later, unless the last recommendation, which
// was not carried out, says something else, or the template does.
func TestLateComers(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*world)
		want int // resizes
	}{
		{"the same since", func(*world) {}, 1},
		{"replicas since", func(w *world) { w.recommend(2, 3, "") }, 1},
		{"replicas since, decided when the newest pod had come without its size", func(w *world) {
			w.recommend(2, 3, "500m", func(r *v1alpha1.Recommendation) { r.Change = v1alpha1.ChangeReplicas })
		}, 1},
		{"too old a word since", func(w *world) {
			w.recommend(2, 2, "700m", func(r *v1alpha1.Recommendation) { r.Time = metav1.NewMicroTime(start.Add(-time.Hour)) })
		}, 0},
		{"another template since", func(w *world) {
			d := deployment(2)
			d.Spec.Template.Spec.Containers[0].Resources.Requests = amounts("600m", "512Mi")
			require.NoError(t, w.api.Update(t.Context(), d))
		}, 0},
		{"another image since", func(w *world) {
			d := deployment(2)
			d.Spec.Template.Spec.Containers[0].Image = "web:2"
			require.NoError(t, w.api.Update(t.Context(), d))
		}, 1},
		{"no longer sized", func(w *world) {
			m := w.object()
			m.Spec.Constraints.Containers = nil
			require.NoError(t, w.api.Update(t.Context(), m))
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, v1alpha1.ModeInPlace)
			w.recommend(1, 2, "300m")
			w.settle()
			w.kubelet("")
			w.settle()
			require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome)
			c.edit(w)
			w.settle()
			w.clock.Step(24 * time.Hour)
			w.changes = nil
			w.restart()
			require.NoError(t, w.api.Create(t.Context(), pod(3)))
			w.settle()
			require.Len(t, w.changes, c.want)
			if a := w.actuation(); a.ID == 1 {
				require.EqualValues(t, c.want, a.InProgress)
				require.NotEqual(t, v1alpha1.OutcomePartly, a.Outcome)
			}
		})
	}
}

// Where nothing can be changed, nothing was applied.
func TestNothingToSize(t *testing.T) {
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeInPlace, v1alpha1.ModeRecreate} {
		for _, left := range []struct {
			requests corev1.ResourceList
			want     v1alpha1.Outcome
		}{
			{nil, v1alpha1.OutcomeRefused},
			{corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("700m")}, v1alpha1.OutcomeApplied}, // it has what it can have
		} {
			w := newWorld(t, mode)
			for _, p := range w.pods() {
				p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: left.requests}
				require.NoError(t, w.api.Update(t.Context(), &p))
			}
			w.kubelet("")
			w.recommend(1, 2, "700m", func(r *v1alpha1.Recommendation) {
				memory := resource.MustParse("1Gi")
				r.Containers[0].Memory = &memory
			})
			w.settle()
			a := w.actuation()
			assert.Equal(t, left.want, a.Outcome, "%s %v", mode, a)
			assert.Contains(t, a.Message, "container web has no memory request")
			assert.Contains(t, w.able(), string(left.want))
			assert.Empty(t, w.changes)
		}
	}
}

// Pods that only look like the workload's are neither resized nor evicted.
func TestPodsOfOthers(t *testing.T) {
	for name, owners := range map[string][]metav1.OwnerReference{
		"another controller's kind of the same name": ownedBy("example.io/v1", "ReplicaSet", "web-1", "set"),
		"a set that was deleted, and its namesake":   ownedBy("apps/v1", "ReplicaSet", "web-1", "old"),
		"nobody": nil,
	} {
		for _, mode := range []v1alpha1.Mode{v1alpha1.ModeInPlace, v1alpha1.ModeRecreate} {
			w := newWorld(t, mode)
			for _, p := range w.pods() {
				p.OwnerReferences = owners
				require.NoError(t, w.api.Update(t.Context(), &p))
			}
			w.recommend(1, 2, "300m")
			w.settle()
			assert.Empty(t, w.changes, "%s: %s", mode, name)
		}
	}
}
