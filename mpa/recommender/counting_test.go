package recommender

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// What counts against the hour is what the updater counts: a change that was interrupted goes
// on counting, and one that was refused counts once a pod takes it.
func TestRequestsCountAsInTheUpdater(t *testing.T) {
	w := newWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Recommender.Algorithm = "vpa" })
	w.usage.cpu = "900m"
	o := w.step(15 * time.Second)
	for o.Status.Recommendation == nil {
		o = w.step(15 * time.Second)
	}
	r := o.Status.Recommendation
	require.Equal(t, v1alpha1.ChangeRequests, r.Change)
	later := metav1.NewMicroTime(r.Time.Add(10 * time.Second))
	for _, c := range []struct {
		outcome v1alpha1.Outcome
		resizes []metav1.MicroTime
		counts  int
	}{
		{v1alpha1.OutcomePartly, []metav1.MicroTime{r.Time}, 1},
		{v1alpha1.OutcomeRefused, []metav1.MicroTime{r.Time}, 1}, // a second autoscaler
		{v1alpha1.OutcomePartly, []metav1.MicroTime{r.Time}, 1},
		{v1alpha1.OutcomeRefused, nil, 0}, // a quota
		{v1alpha1.OutcomeApplied, []metav1.MicroTime{later}, 1},
	} {
		o.Status.Actuation = &v1alpha1.Actuation{ID: r.ID, Outcome: c.outcome, Resizes: c.resizes, Time: metav1.NewMicroTime(w.clock.Now())}
		require.NoError(t, w.Status().Update(t.Context(), o))
		o = w.step(15 * time.Second)
		require.Equal(t, r.ID, o.Status.Recommendation.ID)
		require.Len(t, w.objects[key].journaled.session.Memory().RequestChanges, c.counts, "%+v", c)
	}
}
