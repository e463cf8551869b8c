package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A start does not wait for ever for workloads that it may not read.
func TestFollowWithoutRights(t *testing.T) {
	handlers := utilruntime.ErrorHandlers // one of them sleeps, by the real clock
	utilruntime.ErrorHandlers = nil
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer synctest.Wait()
		defer cancel()
		l := two(t, func(o *Options) { o.Now = nil })
		client := fake.NewClientset()
		client.PrependReactor("list", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "", nil)
		})
		begin := time.Now()
		l.Follow(ctx, informers.NewSharedInformerFactory(client, time.Hour))
		require.Equal(t, firstForecast, time.Since(begin))
		l.place(pod("web", "web"))
		require.True(t, l.state.forecastAt.IsZero())
		cancel()
		time.Sleep(time.Minute) // the informer tries again by and by
	})
}

// The first decision has a forecast. It is read again every few seconds, and ages when Follow
// has ended.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer synctest.Wait()
		defer cancel()
		l := two(t, func(o *Options) { o.Now = nil })
		l.SetPolicy(ledger.Primary, shipped(t, "hand-k1"))
		web := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       appsv1.DeploymentSpec{Replicas: new(int32(7))},
		}
		web.Spec.Template.Labels, web.Spec.Template.Spec = map[string]string{"app": "web"}, pod("x", "web").Spec
		client := fake.NewClientset(web)
		factory := informers.NewSharedInformerFactory(client, time.Hour)
		l.place(pod("early", "web"))
		require.Equal(t, 1, l.fallbacks("stale-forecast"), "nothing is known yet")
		l.Follow(ctx, factory)

		expected := func() float64 {
			list := l.logged(ledger.KindForecast)
			require.NotEmpty(t, list)
			return list[len(list)-1].Expected["default/web@cpu=1,memory=1Gi"]
		}
		l.place(pod("web-1", "web"))
		require.EqualValues(t, 7, expected())
		web = web.DeepCopy()
		web.Spec.Replicas = new(int32(9))
		_, err := client.AppsV1().Deployments("default").Update(ctx, web, metav1.UpdateOptions{})
		require.NoError(t, err)
		time.Sleep(followEvery + time.Second)
		synctest.Wait()
		l.place(pod("web-2", "web"))
		require.EqualValues(t, 9, expected())
		require.Equal(t, 1, l.fallbacks("stale-forecast"))

		cancel()
		synctest.Wait()
		time.Sleep(l.opt.ForecastAge + followEvery)
		l.place(pod("web-3", "web"))
		require.Equal(t, 2, l.fallbacks("stale-forecast"))
		l.verify()
	})
}

// The resources that drivers serve follow the device classes. A cluster without such
// a kind, or one that does not let us read it, serves none, until it does.
func TestFollowClasses(t *testing.T) {
	for name, refusal := range map[string]error{
		"not there": apierrors.NewNotFound(schema.GroupResource{Resource: "deviceclasses"}, ""),
		"forbidden": apierrors.NewForbidden(schema.GroupResource{Resource: "deviceclasses"}, "", nil),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				defer synctest.Wait()
				defer cancel()
				l := two(t, func(o *Options) { o.Now = nil })
				gpu := "example.com/gpu"
				client := fake.NewClientset(&resourcev1.DeviceClass{
					ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: &gpu},
				})
				var open atomic.Bool
				client.PrependReactor("list", "deviceclasses", func(clienttesting.Action) (bool, runtime.Object, error) {
					return !open.Load(), nil, refusal
				})
				factory := informers.NewSharedInformerFactory(client, time.Hour)
				l.Follow(ctx, factory)
				settle()
				p := pod("train", "train", asks(v1.ResourceName(gpu), "1"))
				l.sync()
				require.False(t, l.state.forecastAt.IsZero(), "what is declared does not wait for classes")
				require.Empty(t, l.state.cluster.IgnoredResources(p))
				open.Store(true)
				time.Sleep(time.Minute) // the informer tries again by and by
				synctest.Wait()
				l.sync()
				require.Equal(t, []string{gpu}, l.state.cluster.IgnoredResources(p))

				require.NoError(t, client.ResourceV1().DeviceClasses().Delete(ctx, "gpu", metav1.DeleteOptions{}))
				synctest.Wait()
				l.sync()
				require.Empty(t, l.state.cluster.IgnoredResources(p))
			})
		})
	}
}
