package engine

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// tellFaults reports the annotations of workloads that are ignored, each once until it is
// corrected: by a line, an event on the workload, and the metric of objects not accepted. For one namespace
// a forecast reports at most eventBurst, and the next one more.
func (e *Engine) tellFaults() {
	told, lines := e.faulty, map[string]int{} // by namespace
	e.faulty = map[string]bool{}
	for i := range e.state.faults {
		f := &e.state.faults[i]
		e.faulty[f.String()] = true
		if told[f.String()] {
			continue
		}
		if lines[f.Workload.Namespace]++; lines[f.Workload.Namespace] > eventBurst {
			delete(e.faulty, f.String()) // the next forecast reports it
			continue
		}
		e.metrics.loadErrors.WithLabelValues("workloads").Inc()
		klog.ErrorS(nil, "An annotation is ignored", "profile", e.opt.Profile, "kind", f.Workload.Kind,
			"workload", klog.KRef(f.Workload.Namespace, f.Workload.Name), "fault", f.Text)
		e.events.emit(&f.Workload, v1.EventTypeWarning, "AnnotationIgnored", f.Text)
	}
}
