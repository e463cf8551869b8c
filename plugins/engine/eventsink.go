package engine

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/sigma-scheduler/sigma/internal/bounded"
)

const (
	// eventEvery and eventBurst limit the events about one namespace, and times mostLoud those about all.
	eventEvery = 2 * time.Second
	eventBurst = 20
	mostLoud   = 5
	// mostLimiters bounds the limiters: beyond, those of namespaces without a recent event are dropped.
	mostLimiters = 1000
)

// An eventSink emits Kubernetes events of pods and workloads: a burst of them at first, then one
// every two seconds for a namespace, and five times as many for all.
type eventSink struct {
	recorder events.EventRecorder // nil = there are no events
	all      *rate.Limiter
	now      func() time.Time

	mu sync.Mutex
	of map[string]*rate.Limiter // by namespace
}

func newEventSink(recorder events.EventRecorder, now func() time.Time) *eventSink {
	return &eventSink{recorder: recorder, all: rate.NewLimiter(mostLoud*rate.Every(eventEvery), mostLoud*eventBurst), of: map[string]*rate.Limiter{}, now: now}
}

func (s *eventSink) emit(about runtime.Object, kind, reason, text string) {
	if s.recorder != nil && s.allows(namespaceOf(about)) {
		s.recorder.Eventf(about, nil, kind, reason, "Scheduling", "%s", bounded.Text(text))
	}
}

func namespaceOf(about runtime.Object) string {
	if r, ok := about.(*v1.ObjectReference); ok {
		return r.Namespace
	}
	if o, err := meta.Accessor(about); err == nil {
		return o.GetNamespace()
	}
	return ""
}

// allows reports whether an event about a namespace may be emitted now, and counts it.
func (s *eventSink) allows(namespace string) bool {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of[namespace]
	if of == nil {
		if len(s.of) >= mostLimiters {
			maps.DeleteFunc(s.of, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= eventBurst })
		}
		of = rate.NewLimiter(rate.Every(eventEvery), eventBurst)
		s.of[namespace] = of
	}
	return of.AllowN(now, 1) && s.all.AllowN(now, 1)
}
