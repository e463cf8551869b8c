package follow

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
)

// A lockedFake is a fake that a test may read beside the Runner.
type lockedFake struct {
	mu sync.Mutex
	fake
}

func (f *lockedFake) Order(s Settings) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fake.Order(s)
}

func (f *lockedFake) State() (State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fake.State()
}

// served are the lists that a server has, by path. A watch of them says nothing and does not end.
type served struct {
	mu    sync.Mutex
	lists map[string]any
}

func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	list, ok := s.lists[r.URL.Path]
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	say := func(code int, o any) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(o) // the client may be gone
	}
	status := func(code int, reason metav1.StatusReason) {
		say(code, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason})
	}
	query := r.URL.Query()
	switch {
	case !ok:
		status(http.StatusNotFound, metav1.StatusReasonNotFound)
	case query.Get("sendInitialEvents") != "":
		status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	case query.Get("watch") != "":
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		say(http.StatusOK, list)
	}
}

// A Runner waits for the lists of pods and namespaces before it orders anything, and orders with the addresses that they give.
func TestScopeOfServer(t *testing.T) {
	partial := func(kind, name string, labels map[string]string) any {
		o := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: kind, APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		return &metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"},
			Items: []metav1.PartialObjectMetadata{o},
		}
	}
	policy := v1alpha1.FlowPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid", Generation: 1},
		Spec:       v1alpha1.FlowPolicySpec{Mode: v1alpha1.Live, Bands: 2, Thresholds: []int64{10_000}, FloorPercent: .1},
	}
	team("a")(&policy.Spec)
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}}}
	s := &served{lists: map[string]any{
		"/apis/flow.sigma-scheduler.io/v1alpha1/flowpolicies": &v1alpha1.FlowPolicyList{
			TypeMeta: metav1.TypeMeta{Kind: "FlowPolicyList", APIVersion: v1alpha1.SchemeGroupVersion.String()}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []v1alpha1.FlowPolicy{policy},
		},
		"/api/v1/nodes": partial("Node", "node-1", nil),
		"/api/v1/pods": &corev1.PodList{
			TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Pod{pod},
		},
	}}
	server := httptest.NewServer(s)
	defer server.Close()
	kernel := &lockedFake{}
	r, err := New(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, Options{Node: "node-1", Kernel: kernel, Now: time.Now})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop() // before the server closes, which waits for its watches
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	require.Eventually(t, func() bool {
		status := r.Status()
		return status != nil && status.Conditions[0].Reason == v1alpha1.ReasonUnknownNamespaces
	}, time.Minute, 10*time.Millisecond)
	time.Sleep(2 * looked)
	state, _ := kernel.State()
	require.False(t, state.On, "namespaces are not known")

	s.mu.Lock()
	s.lists["/api/v1/namespaces"] = partial("Namespace", "shop", map[string]string{"team": "a"})
	s.mu.Unlock()
	require.Eventually(t, func() bool {
		state, _ := kernel.State()
		return state.On
	}, time.Minute, 10*time.Millisecond)
	state, _ = kernel.State()
	require.Equal(t, State{On: true, Shaping: true, Thresholds: flow.Thresholds{10_000}, ID: 1, Scope: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}, state)
	stop()
	require.NoError(t, <-ended)
}
