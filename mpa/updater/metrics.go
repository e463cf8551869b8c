package updater

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sigma-scheduler/sigma/mpa/actuate"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

type meters struct {
	actions   *prometheus.CounterVec
	evictions *prometheus.CounterVec
	pods      *prometheus.GaugeVec
	delay     *prometheus.HistogramVec
}

func newMetrics() *meters {
	return &meters{
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sigma_mpa_actions_total", Help: "Recommendations by what they change and outcome; Retried counts attempts that failed for now.",
		}, []string{"change", "outcome"}),
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sigma_mpa_evictions_total", Help: "Pods to evict, by outcome.",
		}, []string{"outcome"}),
		pods: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sigma_mpa_resize_pods", Help: "Pods of an object by the state of their resize.",
		}, []string{"namespace", "name", "state"}),
		delay: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sigma_mpa_action_delay_seconds", Help: "Time from a decision until the updater begins it.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
		}, []string{"change"}),
	}
}

func (m *meters) register(r prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{m.actions, m.evictions, m.pods, m.delay} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// states sets the gauges of one object.
func (m *meters) states(namespace, name string, a *v1alpha1.Actuation) {
	for state, n := range map[actuate.State]int32{
		actuate.Resized: a.Resized, actuate.InProgress: a.InProgress, actuate.Deferred: a.Deferred, actuate.Infeasible: a.Infeasible,
	} {
		m.pods.WithLabelValues(namespace, name, string(state)).Set(float64(n))
	}
}

func (m *meters) forget(namespace, name string) {
	m.pods.DeletePartialMatch(prometheus.Labels{"namespace": namespace, "name": name})
}
