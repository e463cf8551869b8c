package sigma

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"
)

// A profileHandle has the informers of its scheduler.
type profileHandle struct {
	fwk.Handle
	shared informers.SharedInformerFactory
}

func (h *profileHandle) KubeConfig() *rest.Config                               { return &rest.Config{} }
func (h *profileHandle) SharedInformerFactory() informers.SharedInformerFactory { return h.shared }

// The profiles of one scheduler are peers, those of another in the same process are not.
func TestProfilesArePeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		factory := func() informers.SharedInformerFactory {
			return informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		}
		one, other := factory(), factory()
		first := peersOf(ctx, &profileHandle{shared: one})
		require.NotNil(t, first)
		require.Same(t, first, peersOf(ctx, &profileHandle{shared: one}))
		require.NotSame(t, first, peersOf(t.Context(), &profileHandle{shared: other}))
		end()
		synctest.Wait()
		_, kept := peers.Load(one)
		require.False(t, kept)
	})
}
