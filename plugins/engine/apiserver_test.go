package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

var revisions = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "controllerrevisions"}

// An apiServer keeps policies and rules as the real one does: generations and
// resource versions rise, and a status patch on an old version is refused.
type apiServer struct {
	*testing.T
	*dynamicfake.FakeDynamicClient

	mu      sync.Mutex
	version int
	writes  map[string]int // of statuses, by name
	refusal error          // what status patches get
}

func (s *apiServer) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = err
}

// written is how often the status of an object was written.
func (s *apiServer) written(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes[name]
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{T: t, writes: map[string]int{}}
	s.FakeDynamicClient = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		policies: "PlacementPolicyList", rules: "PlacementRuleList",
		plans: "PlacementPlanList", revisions: "ControllerRevisionList", eventsOf: "EventList",
	})
	s.PrependReactor("patch", "*", s.patch)
	return s
}

func (s *apiServer) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	a := action.(clienttesting.PatchAction)
	require.Equal(s, "status", a.GetSubresource())
	require.Equal(s, types.MergePatchType, a.GetPatchType())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusal != nil {
		return true, nil, s.refusal
	}
	var patch struct {
		Metadata struct{ ResourceVersion string }
		Status   map[string]any
	}
	require.NoError(s, json.Unmarshal(a.GetPatch(), &patch))
	now, err := s.Tracker().Get(a.GetResource(), "", a.GetName())
	if err != nil {
		return true, nil, err
	}
	o := now.(*unstructured.Unstructured).DeepCopy()
	if patch.Metadata.ResourceVersion != o.GetResourceVersion() {
		return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), a.GetName(), nil)
	}
	status, _ := o.Object["status"].(map[string]any)
	if status == nil {
		status = map[string]any{}
	}
	for field, value := range patch.Status {
		if n, ok := value.(float64); ok {
			value = int64(n)
		}
		status[field] = value
	}
	o.Object["status"] = status
	s.writes[a.GetName()]++
	s.version++
	o.SetResourceVersion(fmt.Sprint(s.version))
	return true, o, s.Tracker().Update(a.GetResource(), o, "")
}

// apply makes an object, or changes its specification.
func (s *apiServer) apply(resource schema.GroupVersionResource, name string, spec map[string]any) *unstructured.Unstructured {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	now, err := s.Tracker().Get(resource, "", name)
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if err == nil {
		o = now.(*unstructured.Unstructured).DeepCopy()
	} else {
		o.SetAPIVersion(v1alpha1.SchemeGroupVersion.String())
		o.SetKind(map[schema.GroupVersionResource]string{policies: "PlacementPolicy", rules: "PlacementRule", plans: "PlacementPlan"}[resource])
		o.SetName(name)
		o.SetUID(types.UID(fmt.Sprint(name, s.version)))
	}
	o.Object["spec"] = runtime.DeepCopyJSON(spec)
	o.SetGeneration(o.GetGeneration() + 1)
	o.SetResourceVersion(fmt.Sprint(s.version))
	if err == nil {
		require.NoError(s, s.Tracker().Update(resource, o, ""))
	} else {
		require.NoError(s, s.Tracker().Create(resource, o, ""))
	}
	return o
}

func (s *apiServer) remove(resource schema.GroupVersionResource, name string) {
	s.Helper()
	require.NoError(s, s.Tracker().Delete(resource, "", name))
}

// status is what an object's status says: a condition with its reason, and the
// other fields.
func (s *apiServer) status(resource schema.GroupVersionResource, name string) map[string]string {
	s.Helper()
	o, err := s.Tracker().Get(resource, "", name)
	require.NoError(s, err)
	u := o.(*unstructured.Unstructured)
	out := map[string]string{}
	for _, c := range conditionsOf(u) {
		require.False(s, c.LastTransitionTime.IsZero())
		out[c.Type] = fmt.Sprintf("%s %s %d", c.Status, c.Reason, c.ObservedGeneration)
	}
	status, _ := u.Object["status"].(map[string]any)
	for field, value := range status {
		if field != "conditions" && field != "digest" {
			out[field] = fmt.Sprint(value)
		}
	}
	return out
}

func (s *apiServer) message(resource schema.GroupVersionResource, name, condition string) string {
	s.Helper()
	o, err := s.Tracker().Get(resource, "", name)
	require.NoError(s, err)
	c := meta.FindStatusCondition(conditionsOf(o.(*unstructured.Unstructured)), condition)
	require.NotNil(s, c)
	return c.Message
}

func specOf(t *testing.T, o *policy.Object) map[string]any {
	t.Helper()
	plain := o.Spec
	plain.Provenance = nil
	text, err := json.Marshal(plain)
	require.NoError(t, err)
	var spec map[string]any
	require.NoError(t, json.Unmarshal(text, &spec))
	spec["featureVersion"] = int64(o.Spec.FeatureVersion)
	if o.Spec.CanaryPercent != nil {
		spec["canaryPercent"] = int64(*o.Spec.CanaryPercent)
	}
	return spec
}

func ruleSpec(app string, atMost int64) map[string]any {
	return map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": app}}, "maxPerNode": atMost}
}

// inBubble gives a lab whose clock is the bubble's, and lets the engine follow an
// API server.
func inBubble(t *testing.T, f func(l *lab, s *apiServer, watch func(*lab) bool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer synctest.Wait()
		defer cancel()
		s := newAPIServer(t)
		l := two(t, func(o *Options) { o.Now = nil })
		f(l, s, func(l *lab) bool {
			// Without resync an informer waits on a channel that is not the bubble's.
			has, err := l.watch(ctx, s, dynamicinformer.NewDynamicSharedInformerFactory(s, time.Hour))
			require.NoError(t, err)
			synctest.Wait()
			return has.Rules
		})
	})
}

// settle waits until everything that is due is done.
func settle() {
	time.Sleep(3 * time.Second)
	synctest.Wait()
}
