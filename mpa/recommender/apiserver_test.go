package recommender

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// An apiServer answers what the recommender asks of an API server, over HTTP: lists and watches
// for its caches, the metrics API, and writes of the status of its one object. It keeps no managed
// fields, which cost the fake client most of the time that a write takes.
type apiServer struct {
	metrics  *usage
	lists    map[string][]client.Object // by resource; they never change
	events   chan watched               // of the object
	watching chan struct{}              // closed when somebody receives them

	mu      sync.Mutex
	object  *v1alpha1.MultidimPodAutoscaler // nil = none
	version int
	writes  int // of the status
}

type watched struct {
	Type   string                         `json:"type"`
	Object v1alpha1.MultidimPodAutoscaler `json:"object"`
}

const objects = "multidimpodautoscalers"

// ServeHTTP implements [http.Handler].
func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	resource, query := path.Base(r.URL.Path), r.URL.Query()
	switch {
	case r.Method == http.MethodPatch: // of the status
		a.patch(w, r)
	case query.Get("sendInitialEvents") != "":
		fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "no watch lists")
	case query.Get("watch") != "":
		a.watch(w, r, resource)
	case r.Method != http.MethodGet:
		fail(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, r.Method)
	case path.Dir(r.URL.Path) == "/apis/metrics.k8s.io/v1beta1/namespaces/shop":
		list, err := a.metrics.List(r.Context(), metav1.ListOptions{})
		if err != nil {
			panic(err)
		}
		answer(w, list)
	default:
		a.list(w, r, resource)
	}
}

func (a *apiServer) list(w http.ResponseWriter, r *http.Request, resource string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	items, ok := a.lists[resource]
	if resource == objects {
		if ok = true; a.object != nil {
			items = []client.Object{a.object}
		}
	}
	if !ok {
		panic("the recommender asks for " + r.URL.String())
	}
	list := map[string]any{"metadata": map[string]string{"resourceVersion": fmt.Sprint(a.version)}, "items": items}
	if resource == "replicasets" {
		list["kind"], list["apiVersion"] = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	answer(w, list)
}

// watch tells one client of changes of the object. Nothing else changes.
func (a *apiServer) watch(w http.ResponseWriter, r *http.Request, resource string) {
	var events chan watched
	if resource == objects {
		events = a.events
		close(a.watching)
	}
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case e := <-events:
			answer(w, e)
			_ = flush.Flush()
		}
	}
}

// patch replaces the recommender's fields, which are all but the updater's.
func (a *apiServer) patch(w http.ResponseWriter, r *http.Request) {
	var sent v1alpha1.MultidimPodAutoscaler
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
		panic(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.object == nil:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "none")
	case sent.UID != a.object.UID || sent.ResourceVersion != a.object.ResourceVersion:
		fail(w, http.StatusConflict, metav1.StatusReasonConflict, "another version")
	default:
		next := *a.object
		sent.Status.Actuation = next.Status.Actuation
		next.Status = sent.Status
		a.writes++
		a.changed("MODIFIED", &next)
		answer(w, a.object)
	}
}

// changed makes a new version of the object. The lock is held.
func (a *apiServer) changed(kind string, o *v1alpha1.MultidimPodAutoscaler) {
	a.version++
	o.ResourceVersion = fmt.Sprint(a.version)
	o.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("MultidimPodAutoscaler"))
	if a.object = o; kind == "DELETED" {
		a.object = nil
	}
	a.events <- watched{kind, *o}
}

// set creates the object, or deletes it.
func (a *apiServer) set(kind string, o *v1alpha1.MultidimPodAutoscaler) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed(kind, o)
}

// now returns the latest version.
func (a *apiServer) now() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.version
}

func answer(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.WriteHeader(code)
	answer(w, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: corev1.SchemeGroupVersion.Version},
		Status:   metav1.StatusFailure, Reason: reason, Message: message, Code: int32(code),
	})
}
