package updater

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// A pod that was created in the second of its size, and so perhaps before it, is evicted for it. Evictions
// that are spent keep the number of those bounded where the webhook is not reached.
func TestIsYoung(t *testing.T) {
	second := time.Date(2026, 1, 1, 12, 0, 4, 0, time.UTC)
	for _, tt := range []struct {
		name    string
		created time.Time
		spent   bool
		want    bool
	}{
		{"before", second.Add(-time.Second), false, false},
		{"in the same second", second, false, false},
		{"since", second.Add(time.Second), false, true},
		{"before, and evictions are spent", second.Add(-time.Hour), true, true},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(tt.created)}}
		require.Equal(t, tt.want, isYoung(pod, second.Add(949*time.Millisecond), tt.spent), tt.name)
	}
}

// A pod is not evicted before the webhook's cache has had time for its new size.
func TestEvictionsWaitForTheWebhook(t *testing.T) {
	w := newWorld(t, v1alpha1.ModeInPlaceOrRecreate)
	w.webhookLag = webhookLag
	w.recommend(1, 2, "900m")
	w.settle()
	w.kubelet(corev1.PodReasonInfeasible)
	w.settle()
	require.Zero(t, w.actuation().Evicted)
	w.clock.Step(webhookLag)
	w.settle()
	require.EqualValues(t, 1, w.actuation().Evicted)
}
