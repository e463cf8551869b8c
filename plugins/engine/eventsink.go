package engine

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// An eventSink emits Kubernetes events of pods and workloads: a burst of them at first, then one
// each two seconds.
type eventSink struct {
	recorder events.EventRecorder // nil = there are no events
	limiter  *rate.Limiter
	now      func() time.Time
}

func newEventSink(recorder events.EventRecorder, now func() time.Time) *eventSink {
	return &eventSink{recorder, rate.NewLimiter(rate.Every(2*time.Second), 20), now}
}

func (s *eventSink) emit(about runtime.Object, kind, reason, text string) {
	if s.recorder != nil && s.limiter.AllowN(s.now(), 1) {
		s.recorder.Eventf(about, nil, kind, reason, "Scheduling", "%s", text)
	}
}
