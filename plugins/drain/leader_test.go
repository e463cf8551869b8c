package drain

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // as kube-scheduler does
)

// Without leader election the scheduler that decides leads; with it the one that holds the lease.
func TestLeads(t *testing.T) {
	for _, decides := range []bool{true, false} {
		require.Equal(t, decides, Leads(metrics.NewKubeRegistry(), func() bool { return decides }))
	}
	is := func() bool { return Leads(legacyregistry.DefaultGatherer, func() bool { return true }) }

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: "sigma-scheduler", LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 100 * time.Millisecond, ReleaseOnCancel: true,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "sigma-system", Name: "sigma-scheduler"}, Client: fake.NewClientset().CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "a"},
		},
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	require.NoError(t, err)
	require.False(t, is(), "a standby")
	ended := make(chan struct{})
	go func() {
		elector.Run(ctx)
		close(ended)
	}()
	require.Eventually(t, is, 10*time.Second, 10*time.Millisecond)
	cancel()
	<-ended
}
