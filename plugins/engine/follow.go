package engine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// followEvery is how often the forecast is computed.
const followEvery = 5 * time.Second

// Follow keeps the forecast up to date with the cluster's workloads and
// autoscalers until ctx ends. The caller starts the factory's informers afterwards.
func (e *Engine) Follow(ctx context.Context, factory informers.SharedInformerFactory) {
	apps, batch := factory.Apps().V1(), factory.Batch().V1()
	scalers := factory.Autoscaling().V2().HorizontalPodAutoscalers()
	synced := []cache.InformerSynced{
		apps.Deployments().Informer().HasSynced, apps.StatefulSets().Informer().HasSynced, apps.ReplicaSets().Informer().HasSynced,
		batch.Jobs().Informer().HasSynced, batch.CronJobs().Informer().HasSynced, scalers.Informer().HasSynced,
	}
	read := func() (*kube.Declared, error) {
		var d kube.Declared
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
	go func() {
		log := klog.FromContext(ctx).WithValues("profile", e.opt.Profile)
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
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				e.Measure()
			}
		}
	}()
}
