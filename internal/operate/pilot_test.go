package operate

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

// waitingPilot is one with a candidate that waits for approval.
func waitingPilot() *v1alpha1.PolicyPilot {
	return &v1alpha1.PolicyPilot{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PolicyPilot"},
		ObjectMeta: metav1.ObjectMeta{Name: "general", UID: "u1", Generation: 1, ResourceVersion: "1"},
		Status:     v1alpha1.PolicyPilotStatus{Phase: awaiting, Candidate: "sha256:a"},
	}
}

// approve approves while others write: before each of the first patches one of them changes the object.
func approve(t *testing.T, others ...func(*v1alpha1.PolicyPilot)) (digest string, after *v1alpha1.PolicyPilot, err error) {
	t.Helper()
	now, version := waitingPilot(), 1
	object := func() *unstructured.Unstructured {
		u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(now.DeepCopy())
		require.NoError(t, err)
		return &unstructured.Unstructured{Object: u}
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{pilots: "PolicyPilotList"})
	client.PrependReactor("get", "policypilots", func(clienttesting.Action) (bool, runtime.Object, error) { return true, object(), nil })
	client.PrependReactor("patch", "policypilots", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if len(others) > 0 {
			others[0](now)
			others, version = others[1:], version+1
			now.ResourceVersion = string(rune('0' + version))
		}
		var patch struct{ Metadata metav1.ObjectMeta }
		require.NoError(t, json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &patch))
		if patch.Metadata.ResourceVersion != now.ResourceVersion {
			return true, nil, apierrors.NewConflict(pilots.GroupResource(), "general", nil)
		}
		now.Annotations = patch.Metadata.Annotations
		return true, object(), nil
	})
	digest, err = (&Cluster{Client: client}).Approve(t.Context(), "general", false)
	return digest, now, err
}

// sigma-pilot writes the status between the read and the write of an approval: it is written all the same.
func TestApproveWhileTheStatusIsWritten(t *testing.T) {
	told := func(p *v1alpha1.PolicyPilot) { p.Status.Reasons = append(p.Status.Reasons, "it waits") }
	digest, after, err := approve(t, told, told, told)
	require.NoError(t, err)
	require.Equal(t, "sha256:a", digest)
	require.Equal(t, map[string]string{v1alpha1.ApprovedAnnotation: "sha256:a"}, after.Annotations)
}

// Whatever else changes is somebody else's decision, and the candidate that comes instead was seen by nobody.
func TestApproveRefusesWhatElseChanged(t *testing.T) {
	for name, other := range map[string]func(*v1alpha1.PolicyPilot){
		"spec":       func(p *v1alpha1.PolicyPilot) { p.Generation++ },
		"annotation": func(p *v1alpha1.PolicyPilot) { p.Annotations = map[string]string{"by": "another"} },
		"object":     func(p *v1alpha1.PolicyPilot) { p.UID = "u2" },
		"candidate":  func(p *v1alpha1.PolicyPilot) { p.Status.Candidate = "sha256:b" },
		"phase":      func(p *v1alpha1.PolicyPilot) { p.Status.Phase = "Training" },
	} {
		_, after, err := approve(t, other)
		require.ErrorContains(t, err, "general changed since this command read it; nothing is written", name)
		require.NotContains(t, after.Annotations, v1alpha1.ApprovedAnnotation, name)
	}
}
