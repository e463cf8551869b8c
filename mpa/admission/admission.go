// Package admission gives new pods the size recommended for their workload.
//
// The updater resizes running pods. New pods are created from the workload's template,
// which is never rewritten, so a webhook sizes them at admission. It answers from caches and
// within [limit], and it never refuses: a pod that cannot be sized, for any reason,
// starts as in the template, and the answer has the reason.
//
// A pod does not get the recommendation if
//   - the object's mode is Off or its phase is Refused, or the workload has no object or
//     several;
//   - the template's requests of the sized containers were changed after the
//     recommendation: that change was deliberate, and the next recommendation starts from
//     it. A change of anything else, such as a new image, does not count;
//   - the updater found that it had expired, or refused it: a size for which nodes or quota
//     have no room must not keep new pods from starting. They get the last size that was
//     carried out, if there is one;
//   - the pod would have another QoS class, or would no longer pass the namespace's
//     limits and quotas.
//
// If the object has spec.concurrency.pod Sidecar, the pod also gets a gate, by package
// sidecar. A pod without one has an annotation with the reason, and starts as it is.
package admission

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/sigma-scheduler/sigma/internal/serve"
	"github.com/sigma-scheduler/sigma/mpa/actuate"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/batch"
	"github.com/sigma-scheduler/sigma/mpa/reach"
	"github.com/sigma-scheduler/sigma/mpa/target"
	"github.com/sigma-scheduler/sigma/plugins/owner"
)

// Annotations of a sized pod: the recommendation, as object/id, and the changes.
const (
	AnnotationRecommendation = v1alpha1.GroupName + "/recommendation"
	AnnotationSized          = v1alpha1.GroupName + "/sized"
)

// Path of the webhook.
const Path = "/size-pod"

// limit is the longest wait of a pod for its size. It is below the webhook configuration's
// timeoutSeconds, so that a late answer still arrives.
const limit = time.Second

// targetIndex finds the objects of a workload.
const targetIndex = "admission.target"

// Options of the admission.
type Options struct {
	// Namespace of the Secret, the autoscaler's own. Its pods keep their size.
	Namespace string
	// Bind is the address of the webhook.
	Bind string
	// Secret holds the certificate; Configuration is the MutatingWebhookConfiguration that
	// trusts it. See [rotation].
	Secret, Configuration string
	// Life of a certificate.
	Life time.Duration
	// Gate is the image of sigma-gate for pods of objects that request a sidecar; empty = no
	// gate.
	Gate string
}

// AddFlags adds flags for all options but the namespace.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Bind, "webhook-bind-address", ":9443", "address of the webhook")
	flags.StringVar(&o.Secret, "webhook-secret", "sigma-mpa-webhook", "Secret that holds the webhook's certificate")
	flags.StringVar(&o.Configuration, "webhook-configuration", "sigma-mpa", "MutatingWebhookConfiguration that gets the certificate's authority")
	flags.DurationVar(&o.Life, "certificate-lifetime", 90*24*time.Hour, "how long a certificate is valid; it is replaced when a third of that time is left")
	flags.StringVar(&o.Gate, "gate-image", "", "image of sigma-gate for new pods of objects with spec.concurrency.pod Sidecar; empty: they get no gate, and an annotation says so")
}

// Validate returns the invalid option, by flag.
func (o *Options) Validate() error {
	_, port, err := net.SplitHostPort(o.Bind)
	n, numberErr := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || numberErr != nil || n == 0:
		return fmt.Errorf("--webhook-bind-address %q: want host:port or :port", o.Bind)
	case o.Secret == "":
		return errors.New("--webhook-secret is empty")
	case o.Configuration == "":
		return errors.New("--webhook-configuration is empty")
	case o.Life < 15*time.Second:
		return fmt.Errorf("--certificate-lifetime %v: want 15s or more", o.Life)
	case strings.ContainsFunc(o.Gate, unicode.IsSpace):
		return fmt.Errorf("--gate-image %q: want the name of an image", o.Gate)
	}
	return nil
}

// patience is the time that the API server has to send a request. It has [limit] and a little
// more for all of it.
const patience = 5 * time.Second

// Limits of concurrent service: API servers have a few connections each, but every pod may
// connect.
const (
	connections      = 512
	turns            = 4
	maxRequestValues = 1 << 16
	maxRequestBytes  = 7 << 20 // as controller-runtime: an object has 3 MiB at most, and there may be two
)

// Setup adds the webhook to a manager; ready returns the reason that it cannot answer.
func Setup(m manager.Manager, o Options) (ready func() error, err error) {
	if err := m.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.MultidimPodAutoscaler{}, targetIndex, targetOf); err != nil {
		return nil, err
	}
	for _, object := range []client.Object{&v1.LimitRange{}, &v1.ResourceQuota{}} { // filled before the first request
		if _, err := m.GetCache().GetInformer(context.Background(), object); err != nil {
			return nil, err
		}
	}
	r, err := newRevisions(m)
	if err != nil {
		return nil, err
	}
	c, err := kubernetes.NewForConfigAndClient(m.GetConfig(), m.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	certificates := &rotation{client: c, namespace: o.Namespace, secret: o.Secret, configuration: o.Configuration, life: o.Life, now: clock.RealClock{}.Now}
	if err := m.Add(certificates); err != nil {
		return nil, err
	}
	hook := &webhook.Admission{Handler: &handler{objects: m.GetCache(), revisions: r, limit: limit, namespace: o.Namespace, image: o.Gate, token: rand.Text}}
	return certificates.ready, m.Add(server(o.Bind, hook, certificates.tls()))
}

// server serves the webhook. That of controller-runtime waits for ever for a slow caller.
func server(address string, hook http.Handler, config *tls.Config) *serve.Server {
	mux := http.NewServeMux()
	webhook.NewServer(webhook.Options{WebhookMux: mux}).Register(Path, hook)                      // with its metrics; it is not started
	mux.Handle(batch.Path, &webhook.Admission{Handler: ctrladmission.HandlerFunc(batch.Convert)}) // by manifests/mpa/batch
	mux.Handle(reach.Path, &webhook.Admission{Handler: ctrladmission.HandlerFunc(reach.Mark)})
	return &serve.Server{
		Address: address, Handler: serve.NewBodies(maxRequestBytes, maxRequestValues, turns).Handler(mux), TLS: config,
		Connections: connections, Patience: patience,
	}
}

func targetOf(object client.Object) []string {
	return []string{target.RefOf(&object.(*v1alpha1.MultidimPodAutoscaler).Spec.ScaleTargetRef).String()}
}

// The results for a pod.
const (
	resultSized   = "sized"
	resultSame    = "same" // it has that size already
	resultNone    = "no-object"
	resultOff     = "off"
	resultWaiting = "no-recommendation"
	resultRefused = "refused" // the object or the recommendation
	resultNewer   = "template-newer"
	resultKept    = "kept" // QoS, limits or quota
	resultFailed  = "failed"
)

var (
	pods = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sigma_mpa_admission_pods_total", Help: "Pods that the webhook saw, by result.",
	}, []string{"result"})
	gates = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sigma_mpa_admission_gates_total", Help: "Pods of objects with spec.concurrency.pod Sidecar, by result: injected, or why not.",
	}, []string{"result"})
	seconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "sigma_mpa_admission_seconds", Help: "Time to size a pod.",
		Buckets: []float64{.0001, .0003, .001, .003, .01, .03, .1, .3, 1},
	})
)

func init() { metrics.Registry.MustRegister(pods, gates, seconds) }

type handler struct {
	objects, revisions client.Reader
	limit              time.Duration
	namespace          string        // the autoscaler's own
	image              string        // of the gate; empty = no gate
	token              func() string // a random one, for the hook of a pod with a gate
}

// Handle implements [ctrladmission.Handler].
func (h *handler) Handle(ctx context.Context, request ctrladmission.Request) (answer ctrladmission.Response) {
	timer := prometheus.NewTimer(seconds)
	defer timer.ObserveDuration()
	ctx, cancel := context.WithTimeout(ctx, h.limit)
	defer cancel()
	result, answer := h.answer(ctx, request)
	pods.WithLabelValues(result).Inc()
	return answer
}

// answer never refuses a pod, not even after an error or a panic.
func (h *handler) answer(ctx context.Context, request ctrladmission.Request) (result string, answer ctrladmission.Response) {
	unchanged := func(err error) ctrladmission.Response {
		log.FromContext(ctx).Error(err, "a pod keeps its size")
		return ctrladmission.Allowed("").WithWarnings(keeps + err.Error())
	}
	defer func() {
		if p := recover(); p != nil {
			result, answer = resultFailed, unchanged(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	raw := request.Object.Raw
	var pod v1.Pod
	if err := json.Unmarshal(raw, &pod); err != nil {
		return resultFailed, unchanged(err)
	}
	var warnings []string
	o, result, err := h.object(ctx, &pod, request.Namespace)
	if o != nil {
		result, err = h.size(ctx, &pod, request.Namespace, o)
	}
	if err == nil && result == resultSized {
		raw, err = merge(raw, &pod)
	}
	if err != nil {
		warnings = append(warnings, unchanged(err).Warnings...)
		raw = request.Object.Raw
	}
	if o != nil {
		gated, err := h.gate(ctx, raw, request.Namespace, o)
		if err != nil {
			log.FromContext(ctx).Error(err, "a pod gets no gate")
			warnings = append(warnings, "sigma-mpa: the pod starts without a gate: "+err.Error())
		}
		raw = gated
	}
	answer = ctrladmission.Allowed("")
	if !bytes.Equal(raw, request.Object.Raw) {
		if answer = ctrladmission.PatchResponseFromRaw(request.Object.Raw, raw); !answer.Allowed {
			return resultFailed, unchanged(errors.New(answer.Result.Message))
		}
	}
	answer.Warnings = warnings
	return result, answer
}

// keeps begins the warning of a pod that could not be sized.
const keeps = "sigma-mpa: the pod starts with the size of its template: "

// merge writes the changes of a pod to its JSON, and keeps fields that this program's version
// of the type lacks.
func merge(raw []byte, pod *v1.Pod) ([]byte, error) {
	var object map[string]any
	if err := utiljson.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	resources := map[string]v1.ResourceRequirements{}
	for _, c := range target.Containers(&pod.Spec) {
		resources[c.Name] = c.Resources
	}
	for _, field := range []string{"initContainers", "containers"} {
		list, _, err := unstructured.NestedSlice(object, "spec", field)
		if err != nil {
			return nil, err
		}
		for _, item := range list {
			c, ok := item.(map[string]any)
			name, isText := c["name"].(string)
			if !ok || !isText {
				return nil, fmt.Errorf("spec.%s: a container without a name", field)
			}
			for part, amounts := range map[string]v1.ResourceList{"requests": resources[name].Requests, "limits": resources[name].Limits} {
				for resource, q := range amounts {
					if err := unstructured.SetNestedField(c, q.String(), "resources", part, string(resource)); err != nil {
						return nil, err
					}
				}
			}
		}
		if len(list) > 0 {
			if err := unstructured.SetNestedSlice(object, list, "spec", field); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range []string{AnnotationRecommendation, AnnotationSized} {
		if err := unstructured.SetNestedField(object, pod.Annotations[name], "metadata", "annotations", name); err != nil {
			return nil, err
		}
	}
	return json.Marshal(object)
}

// object returns the one that sizes a pod's workload, or the reason that there is none.
func (h *handler) object(ctx context.Context, pod *v1.Pod, namespace string) (*v1alpha1.MultidimPodAutoscaler, string, error) {
	workload, ok := owner.Of(pod, nil)
	if !ok || target.Ignores(namespace, h.namespace) {
		return nil, resultNone, nil
	}
	var found v1alpha1.MultidimPodAutoscalerList
	if err := h.objects.List(ctx, &found, client.InNamespace(namespace), client.MatchingFields{targetIndex: workload.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, resultFailed, err
	}
	return theOne(found.Items)
}

// size gives a pod the size recommended for its workload.
func (h *handler) size(ctx context.Context, pod *v1.Pod, namespace string, o *v1alpha1.MultidimPodAutoscaler) (string, error) {
	if o.Status.Recommendation == nil {
		return resultWaiting, nil
	}
	want := wantedOf(o)
	if len(want.Containers) == 0 {
		return resultWaiting, nil
	}
	at, err := sizedSince(ctx, h.revisions, pod, namespace, o)
	if err != nil {
		return resultFailed, err
	}
	// Kubernetes' times are whole seconds: within the same second the template wins.
	if !at.IsZero() && want.Time.Time.Before(at.Add(time.Second)) {
		return resultNewer, nil
	}
	ranges, quotas, err := h.bounds(ctx, namespace)
	if err != nil {
		return resultFailed, err
	}
	changes, err := size(pod, want.Containers, actuate.Constraints(o), o.ByUse(), ranges, quotas)
	switch {
	case err != nil:
		return resultKept, fmt.Errorf("recommendation %s/%d: %w", o.Name, want.ID, err)
	case changes == "":
		return resultSame, nil
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, AnnotationRecommendation, fmt.Sprintf("%s/%d", o.Name, want.ID))
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, AnnotationSized, changes)
	return resultSized, nil
}

// bounds are the limits and quotas of a namespace.
func (h *handler) bounds(ctx context.Context, namespace string) ([]v1.LimitRange, []v1.ResourceQuota, error) {
	var ranges v1.LimitRangeList
	if err := h.objects.List(ctx, &ranges, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, err
	}
	var quotas v1.ResourceQuotaList
	err := h.objects.List(ctx, &quotas, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	return ranges.Items, quotas.Items, err
}

// theOne returns the single object of a workload that acts, or the reason that there is none.
func theOne(all []v1alpha1.MultidimPodAutoscaler) (o *v1alpha1.MultidimPodAutoscaler, result string, err error) {
	result = resultNone
	for i := range all {
		switch {
		case all[i].Spec.Mode == v1alpha1.ModeOff:
			result = resultOff
		case refused(&all[i].Status):
			result = resultRefused
		case o != nil:
			return nil, resultRefused, fmt.Errorf("%s and %s are about the same %s", o.Name, all[i].Name, o.Spec.ScaleTargetRef.Kind)
		default:
			o = &all[i]
		}
	}
	return o, result, nil
}

// undecided are the reasons of refusals that do not invalidate the last recommended size:
// new pods get it, as the running ones have it.
var undecided = []string{"SwitchedOff", "TargetMissing", "TargetDeleted", "AlgorithmUnknown", "JournalFailed", "VerticalPodAutoscalersUnknown"}

// refused reports whether the recommender refuses the object, so that its last size is void.
func refused(s *v1alpha1.MultidimPodAutoscalerStatus) bool {
	active := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionActive)
	return s.Phase == v1alpha1.PhaseRefused && (active == nil || !slices.Contains(undecided, active.Reason))
}

// wantedOf returns the requests for new pods: those of the recommendation, or, if the updater
// will not carry them out, the last that it carried out. Sizes by use wait for the updater, which converts the targets of a
// HorizontalPodAutoscaler first.
func wantedOf(o *v1alpha1.MultidimPodAutoscaler) v1alpha1.Sizes {
	r, a := o.Status.Recommendation, o.Status.Actuation
	if a != nil && a.ID == r.ID && r.Change == v1alpha1.ChangeRequests &&
		(a.Outcome == v1alpha1.OutcomeRefused || a.Outcome == v1alpha1.OutcomeExpired && o.Spec.Mode != v1alpha1.ModeInitial) {
		if a.Sizes == nil || a.Sizes.ID == r.ID {
			return v1alpha1.Sizes{}
		}
		return *a.Sizes
	}
	if o.ByUse() && (a == nil || a.ID < r.ID) {
		if a == nil || a.Sizes == nil {
			return v1alpha1.Sizes{}
		}
		return *a.Sizes
	}
	return v1alpha1.Sizes{ID: r.ID, Time: r.Time, Containers: r.Containers}
}
