package oracle

import (
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// A still informer has all its objects before it is asked for, and tells a handler of them at once: no filter sees a part of a cluster.
type still struct{ cache.SharedIndexInformer }

// newStill is for objects of the kind of one of them.
func newStill(kind runtime.Object, objects []runtime.Object) cache.SharedIndexInformer {
	s := still{cache.NewSharedIndexInformer(&cache.ListWatch{}, kind, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
	for _, o := range objects {
		if reflect.TypeOf(o) == reflect.TypeOf(kind) {
			if err := s.GetIndexer().Add(o); err != nil {
				panic("an object without a name: " + err.Error())
			}
		}
	}
	return s
}

func (s still) HasSynced() bool { return true }

func (s still) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

func (s still) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

func (s still) AddEventHandlerWithOptions(h cache.ResourceEventHandler, o cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	registration, err := s.SharedIndexInformer.AddEventHandlerWithOptions(h, o)
	for _, o := range s.GetIndexer().List() {
		h.OnAdd(o, true)
	}
	return registration, err
}

// stillInformers are a factory whose informers of the given kinds are still. It is never started.
func stillInformers(client kubernetes.Interface, objects []runtime.Object, kinds ...runtime.Object) informers.SharedInformerFactory {
	factory := informers.NewSharedInformerFactory(client, 0)
	for _, kind := range kinds {
		factory.InformerFor(kind, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return newStill(kind, objects) })
	}
	return factory
}
