package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// followEvery is the interval at which the forecast is computed.
const followEvery = 5 * time.Second

// firstForecast bounds the wait of a start for the first forecast. Without the right to read
// a kind there is never one.
const firstForecast = 2 * time.Second

// Follow keeps the forecast up to date with the cluster's workloads and
// autoscalers, and the served resources with its device classes, until ctx ends. A new
// workload is expected at once: its pods do not wait for the next forecast. Follow starts
// the factory's informers and waits for the first forecast, for two seconds at most: until
// then, the policy cannot decide.
func (e *Engine) Follow(ctx context.Context, factory informers.SharedInformerFactory) {
	e.followClasses(ctx, factory)
	apps, batch := factory.Apps().V1(), factory.Batch().V1()
	scalers := factory.Autoscaling().V2().HorizontalPodAutoscalers()
	synced := []cache.InformerSynced{
		apps.Deployments().Informer().HasSynced, apps.StatefulSets().Informer().HasSynced, apps.ReplicaSets().Informer().HasSynced,
		batch.Jobs().Informer().HasSynced, batch.CronJobs().Informer().HasSynced, scalers.Informer().HasSynced,
	}
	read := func() (*kube.Declarations, error) {
		var d kube.Declarations
		var err error
		list := func(f func() error) {
			if err == nil {
				err = f()
			}
		}
		all := labels.Everything()
		list(func() (err error) { d.Deployments, err = apps.Deployments().Lister().List(all); return })
		list(func() (err error) { d.StatefulSets, err = apps.StatefulSets().Lister().List(all); return })
		list(func() (err error) { d.ReplicaSets, err = apps.ReplicaSets().Lister().List(all); return })
		list(func() (err error) { d.Jobs, err = batch.Jobs().Lister().List(all); return })
		list(func() (err error) { d.CronJobs, err = batch.CronJobs().Lister().List(all); return })
		list(func() (err error) { d.Autoscalers, err = scalers.Lister().List(all); return })
		return &d, err
	}
	for _, informer := range []cache.SharedIndexInformer{
		apps.Deployments().Informer(), apps.StatefulSets().Informer(), apps.ReplicaSets().Informer(),
		batch.Jobs().Informer(), batch.CronJobs().Informer(),
	} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{AddFunc: func(o any, isInInitialList bool) {
			if !isInInitialList {
				e.addDeclared(o)
			}
		}})
		if err != nil {
			klog.FromContext(ctx).Error(err, "Cannot follow new workloads; the next forecast has them", "profile", e.opt.Profile)
		}
	}
	factory.Start(ctx.Done())
	log := klog.FromContext(ctx).WithValues("profile", e.opt.Profile)
	first := make(chan struct{})
	go func() {
		done := sync.OnceFunc(func() { close(first) })
		if !cache.WaitForCacheSync(ctx.Done(), synced...) {
			return
		}
		tick := time.NewTicker(followEvery)
		defer tick.Stop()
		for {
			if d, err := read(); err != nil {
				log.Error(err, "Cannot read what is declared; the forecast ages")
			} else {
				e.SetDeclared(d)
				done()
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				e.Measure()
			}
		}
	}()
	select {
	case <-first:
	case <-ctx.Done():
	case <-time.After(firstForecast):
		log.Info("The workloads are not read yet; decisions begin without a forecast", "waited", firstForecast)
	}
}

// followClasses keeps the served resources up to date. A cluster without device
// classes, or one that does not allow reading them, serves none until that changes.
func (e *Engine) followClasses(ctx context.Context, factory informers.SharedInformerFactory) {
	log := klog.FromContext(ctx).WithValues("profile", e.opt.Profile)
	classes := factory.Resource().V1().DeviceClasses()
	var once sync.Once
	refused := func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			once.Do(func() {
				log.Info("Device classes cannot be read; no extended resource counts as served by a driver", "err", err)
			})
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}
	read := func() {
		if list, err := classes.Lister().List(labels.Everything()); err == nil {
			e.SetServed(kube.Served(list))
		}
	}
	_, err := classes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { read() }, UpdateFunc: func(any, any) { read() }, DeleteFunc: func(any) { read() },
	})
	if err = errors.Join(err, classes.Informer().SetWatchErrorHandlerWithContext(refused)); err != nil {
		log.Error(err, "Cannot follow device classes")
	}
}
