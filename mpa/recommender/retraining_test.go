package recommender

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// Retraining is asked for from an alarm on until another policy serves.
func TestRetraining(t *testing.T) {
	o := &v1alpha1.MultidimPodAutoscaler{}
	o.Spec.Recommender.Algorithm = algorithmLearned
	decide := func(digest, drift string) metav1.Condition {
		next := begin(o, &object{})
		next.Decision = &v1alpha1.Decision{PolicyDigest: digest}
		setRetraining(o, next, mpa.Spec{Name: algorithmLearned, Digest: digest}, drift)
		o.Status = *next
		return condition(next, v1alpha1.ConditionRetraining)
	}
	for _, step := range []struct {
		digest, drift string
		want          metav1.ConditionStatus
		reason        string
	}{
		{"one", "", metav1.ConditionFalse, "NoChange"},
		{"one", "cpu per request is higher", metav1.ConditionTrue, "WorkloadChanged"},
		{"one", "", metav1.ConditionTrue, "WorkloadChanged"},
		{"two", "", metav1.ConditionFalse, "PolicyChanged"},
		{"two", "", metav1.ConditionFalse, "PolicyChanged"},
		{"two", "latency is higher", metav1.ConditionTrue, "WorkloadChanged"},
	} {
		c := decide(step.digest, step.drift)
		assert.Equal(t, step.want, c.Status, step)
		assert.Equal(t, step.reason, c.Reason, step)
	}
	assert.Equal(t, "latency is higher", condition(&o.Status, v1alpha1.ConditionRetraining).Message)
	o.Spec.Recommender.Algorithm = "predictive"
	next := begin(o, &object{})
	setRetraining(o, next, mpa.Spec{Name: "predictive"}, "")
	assert.Empty(t, condition(next, v1alpha1.ConditionRetraining).Type)
}
