package recommender

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/collect"
)

// Metrics by namespace and name of the object.
var (
	decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sigma_mpa_decisions_total", Help: "Decisions by action: Hold, Scale (replicas) or Resize (requests).",
	}, []string{"namespace", "name", "action"})
	holds = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sigma_mpa_guards_total", Help: "Decisions that a guard changed or stopped, by guard.",
	}, []string{"namespace", "name", "guard"})
	decisionSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "sigma_mpa_decision_seconds", Help: "Time of a decision, without observing and writing.",
		Buckets: prometheus.ExponentialBuckets(1e-5, 4, 8),
	})
	usageAge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sigma_mpa_usage_age_seconds", Help: "Age of the newest usage at the last decision.",
	}, []string{"namespace", "name"})
	ratios = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sigma_mpa_slo_ratio", Help: "Latency as a share of its target, or throughput's target as a share of it; above 1 the promise is broken.",
	}, []string{"namespace", "name"})
	errorsSeen = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sigma_mpa_observation_errors_total", Help: "What could not be measured, by source: usage, rate, latency or throughput.",
	}, []string{"namespace", "name", "source"})
	replicas = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sigma_mpa_recommended_replicas", Help: "Replicas of the last recommendation.",
	}, []string{"namespace", "name"})
	cpu = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sigma_mpa_recommended_cpu_cores", Help: "CPU request of a container in the last recommendation.",
	}, []string{"namespace", "name", "container"})
	memory = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sigma_mpa_recommended_memory_bytes", Help: "Memory request of a container in the last recommendation.",
	}, []string{"namespace", "name", "container"})
	withoutJournals = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sigma_mpa_objects_without_journal_total", Help: "Objects that began without a journal, because the share of their namespace is used.",
	})
	retrainings = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sigma_mpa_retrainings_total", Help: "Trainings of a policy for a workload that has changed, by outcome: Taken, NotBetter, Failed or TimedOut; TakenBack counts policies that were Taken and found worse.",
	}, []string{"namespace", "name", "outcome"})
)

func init() {
	metrics.Registry.MustRegister(decisions, holds, decisionSeconds, usageAge, ratios, errorsSeen, replicas, cpu, memory, withoutJournals, retrainings)
}

// measured counts a decision, and exports its inputs.
func measured(key types.NamespacedName, o *v1alpha1.MultidimPodAutoscaler, ob *mpa.Observation, d *mpa.Decision, problems []collect.Problem) {
	decisions.WithLabelValues(key.Namespace, key.Name, action(d)).Inc()
	for _, g := range d.Guards {
		guard, _, _ := strings.Cut(g, ":")
		holds.WithLabelValues(key.Namespace, key.Name, guard).Inc()
	}
	for _, p := range problems {
		errorsSeen.WithLabelValues(key.Namespace, key.Name, p.Source).Inc()
	}
	unmeasured(key)
	if age, ok := ageOf(ob); ok {
		usageAge.WithLabelValues(key.Namespace, key.Name).Set(age)
	}
	if ratio, ok := sloRatio(o, ob); ok {
		ratios.WithLabelValues(key.Namespace, key.Name).Set(ratio)
	}
}

// ageOf returns the age of the newest usage in seconds.
func ageOf(ob *mpa.Observation) (age float64, ok bool) {
	for _, p := range ob.Pods {
		for _, k := range p.Containers {
			if a := ob.Time.Sub(k.Usage.Time).Seconds(); !k.Usage.Time.IsZero() && (!ok || a < age) {
				age, ok = a, true
			}
		}
	}
	return age, ok
}

// unmeasured drops the series of an object that is not measured now: an alarm on the last
// values would never end.
func unmeasured(key types.NamespacedName) {
	usageAge.DeleteLabelValues(key.Namespace, key.Name)
	ratios.DeleteLabelValues(key.Namespace, key.Name)
}

// recommended shows a recommendation. Containers that it lacks have no series any more.
func recommended(key types.NamespacedName, r *v1alpha1.Recommendation) {
	labels := prometheus.Labels{"namespace": key.Namespace, "name": key.Name}
	cpu.DeletePartialMatch(labels)
	memory.DeletePartialMatch(labels)
	replicas.WithLabelValues(key.Namespace, key.Name).Set(float64(r.Replicas))
	for _, k := range r.Containers {
		cpu.WithLabelValues(key.Namespace, key.Name, k.Name).Set(k.CPU.AsApproximateFloat64())
		memory.WithLabelValues(key.Namespace, key.Name, k.Name).Set(k.Memory.AsApproximateFloat64())
	}
}

// forgetMetrics drops the series of a deleted object.
func forgetMetrics(key types.NamespacedName) {
	labels := prometheus.Labels{"namespace": key.Namespace, "name": key.Name}
	for _, v := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{decisions, holds, usageAge, ratios, errorsSeen, replicas, cpu, memory, retrainings} {
		v.DeletePartialMatch(labels)
	}
}
