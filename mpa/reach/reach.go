// Package reach checks whether API servers reach the webhook that sizes new pods. If they do not,
// pods start all the same, and the webhook cannot notice it. So the recommender creates a
// ConfigMap in a dry run, which only the API server receives, and the webhook marks it on the
// same path on which it receives pods.
package reach

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

const (
	// Path of the webhook that marks a probe.
	Path = "/probe"
	// patience is the number of probes in a row without an answer after which the webhook counts as
	// not reached: replicas start, and certificates change.
	patience = 3
	// limit of a probe. An API server waits for two seconds for the webhook.
	limit = 10 * time.Second
)

var reached = prometheus.NewGauge(prometheus.GaugeOpts{
	Name: "sigma_mpa_webhook_reached", Help: "1 if the API server reaches the webhook that sizes new pods, 0 after three probes in a row without its answer.",
})

// Mark is the handler that marks probes.
func Mark(_ context.Context, request admission.Request) admission.Response {
	var probe v1.ConfigMap
	if err := json.Unmarshal(request.Object.Raw, &probe); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	metav1.SetMetaDataAnnotation(&probe.ObjectMeta, v1alpha1.ProbeMark, "true")
	raw, err := json.Marshal(&probe)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, raw)
}

// A Prober probes at an interval. One process of several does.
type Prober struct {
	client    client.Client
	namespace string
	every     time.Duration

	mu     sync.Mutex
	known  bool
	missed int
	why    string
}

// New returns a Prober that dry-creates in a namespace. It registers its metric with the first one.
func New(c client.Client, namespace string, every time.Duration) *Prober {
	_ = metrics.Registry.Register(reached) // several of a test share it
	return &Prober{client: c, namespace: namespace, every: every}
}

// Start probes until ctx ends.
func (p *Prober) Start(ctx context.Context) error {
	wait.NonSlidingUntilWithContext(ctx, p.Probe, p.every)
	return nil
}

// Probe probes once.
func (p *Prober) Probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	probe := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: v1alpha1.ProbeName}}
	err := p.client.Create(ctx, probe, client.DryRunAll)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil: // the webhook's state is unknown
		log.FromContext(ctx).V(1).Info("The webhook cannot be probed", "why", err.Error())
		return
	case probe.Annotations[v1alpha1.ProbeMark] != "":
		p.known, p.missed, p.why = true, 0, ""
		reached.Set(1)
		return
	}
	if p.missed++; p.missed >= patience {
		p.known = true
		p.why = "The API server gets no answer from the webhook, so new pods start with the size of their template; docs/mpa.md says what may be in the way"
		reached.Set(0)
	}
}

// Reached reports whether the webhook is reached, if known, or the reason that it is not.
func (p *Prober) Reached() (reached, known bool, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why == "", p.known, p.why
}
