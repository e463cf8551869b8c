package recommender

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

// The load of a workload rises and falls, and its object is deleted and made again.
func TestSoak(t *testing.T) {
	w := newWorld(t)
	soak := packtest.NewSoak(t, "recommender", 1000)
	for i, more := 0, true; more; i++ {
		w.usage.cpu = fmt.Sprintf("%dm", 100+i%40*10)
		w.step(time.Minute)
		for len(w.events.Events) > 0 {
			<-w.events.Events
		}
		for range 4 { // the samples of two pods, a decision, a status
			more = soak.Event() && more
		}
		if i%100 == 99 {
			require.NoError(t, w.Delete(t.Context(), web()))
			_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
			require.NoError(t, err)
			require.Empty(t, w.objects)
			require.NoError(t, w.Create(t.Context(), web()))
		}
	}
	soak.Flat()
}
