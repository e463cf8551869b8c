package recommender

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// Each namespace has an equal share of the volume for journals, whatever number of objects the other one has. An object whose
// part is too small decides without a journal.
func TestTwoTenantsShareJournals(t *testing.T) {
	w := newWorld(t)
	w.options.JournalDir, w.options.JournalBytes, w.options.JournalTotal = t.TempDir(), 1<<30, 8<<20
	journals := func() (names []string) {
		names, err := filepath.Glob(filepath.Join(w.options.JournalDir, "*", "*.jsonl"))
		require.NoError(t, err)
		return names
	}
	w.of["a"] = 5000
	require.NotNil(t, w.step(0).Status.Recommendation)
	require.Len(t, journals(), 1)
	require.Equal(t, int64(4<<20), w.journalBytes("shop"), "half of it is for the other namespace")
	require.Less(t, w.journalBytes("a"), int64(leastJournal))

	crowded := newWorld(t)
	w.options.JournalDir = t.TempDir()
	crowded.options = w.options
	crowded.of["shop"] = 5000
	require.NotNil(t, crowded.step(0).Status.Recommendation)
	require.NotNil(t, crowded.step(15*time.Second).Status.Recommendation)
	require.Empty(t, journals())
	require.Len(t, crowded.full, 1)
}

// Objects of one namespace have all Jobs that train but one, which is for another namespace.
func TestTwoTenantsShareTrainings(t *testing.T) {
	w := newWorld(t)
	w.options.RetrainingJobs = 3
	for i := range 2 {
		o := web()
		o.Namespace, o.Name, o.UID = "a", fmt.Sprint("web-", i), types.UID(fmt.Sprint(i))
		require.NoError(t, w.Create(t.Context(), o))
		o.Status.Retraining = &v1alpha1.RetrainingStatus{Job: fmt.Sprint("job-", i)}
		require.NoError(t, w.Status().Update(t.Context(), o))
	}
	now := w.clock.Now()
	require.ErrorContains(t, w.room(t.Context(), "a", "job-2", now), "2 Jobs of other objects of the namespace run")
	require.NoError(t, w.room(t.Context(), "b", "job-2", now))
	require.NoError(t, w.room(t.Context(), "a", "job-1", now), "it runs already")
	w.options.RetrainingJobs = 2
	require.ErrorContains(t, w.room(t.Context(), "b", "job-2", now), "2 Jobs of other objects run")
}

// Tenant a renames the containers of an object again and again, and deletes it. Its series are those of the last names, then none;
// those of tenant b stay.
func TestTwoTenantsShareMetrics(t *testing.T) {
	a, b := types.NamespacedName{Namespace: "tenant-a", Name: "web"}, types.NamespacedName{Namespace: "tenant-b", Name: "web"}
	of := func(container string) *v1alpha1.Recommendation {
		return &v1alpha1.Recommendation{Replicas: 1, Containers: []v1alpha1.ContainerRequests{{
			Name: container, CPU: new(resource.MustParse("1")), Memory: new(resource.MustParse("1Gi")),
		}}}
	}
	before := testutil.CollectAndCount(cpu)
	recommended(b, of("web"))
	for i := range 100 {
		recommended(a, of(fmt.Sprint("c-", i)))
	}
	require.Equal(t, before+2, testutil.CollectAndCount(cpu))
	require.Equal(t, before+2, testutil.CollectAndCount(memory))
	forgetMetrics(a)
	require.Equal(t, before+1, testutil.CollectAndCount(cpu))
	require.EqualValues(t, 1, testutil.ToFloat64(cpu.WithLabelValues(b.Namespace, b.Name, "web")))
	forgetMetrics(b)
}
