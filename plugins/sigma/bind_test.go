package sigma

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	restclient "k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics/legacyregistry"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/sigma-scheduler/sigma/plugins/apis/config"
)

// A store is an API server with one pod, as far as binding goes.
type store struct {
	pod *v1.Pod // nil = gone
	// What happens at the first requests; later ones are taken and answered truly. What
	// happens at a read happens after the pod was looked up.
	binds, reads []func(*store) error

	targets []string    // of all bindings
	uids    []types.UID // likewise
	looked  int         // number of reads
}

// made is a binding that is made, and an answer to it.
func made(err error) func(*store) error {
	return func(s *store) error {
		s.pod.Spec.NodeName = s.targets[len(s.targets)-1]
		return err
	}
}

// not is a request with which nothing happens, and an answer to it.
func not(err error) func(*store) error { return func(*store) error { return err } }

// answer is an answer of an API server.
func answer(code int, text string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Message: text}}
}

func (s *store) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	create, ok := action.(clienttesting.CreateAction)
	if !ok || action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	b := create.GetObject().(*v1.Binding)
	s.targets, s.uids = append(s.targets, b.Target.Name), append(s.uids, b.UID)
	if len(s.binds) > 0 {
		next := s.binds[0]
		s.binds = s.binds[1:]
		return true, nil, next(s)
	}
	switch {
	case s.pod == nil:
		return true, nil, answer(http.StatusNotFound, "not found")
	case s.pod.DeletionTimestamp != nil:
		return true, nil, answer(http.StatusConflict, "is being deleted")
	case s.pod.Spec.NodeName != "":
		return true, nil, answer(http.StatusConflict, "already assigned to node "+s.pod.Spec.NodeName)
	}
	return true, nil, made(nil)(s)
}

func (s *store) get(clienttesting.Action) (bool, runtime.Object, error) {
	s.looked++
	before := s.pod.DeepCopy()
	if len(s.reads) > 0 {
		next := s.reads[0]
		s.reads = s.reads[1:]
		if err := next(s); err != nil {
			return true, nil, err
		}
	}
	if before == nil {
		return true, nil, apierrors.NewNotFound(v1.Resource("pods"), "web-1")
	}
	return true, before, nil
}

// A binderHandle is of a scheduler that only binds.
type binderHandle struct {
	fwk.Handle
	client *fake.Clientset
	cacher fwk.APICacher
}

func (h binderHandle) ClientSet() kubernetes.Interface           { return h.client }
func (h binderHandle) APICacher() fwk.APICacher                  { return h.cacher }
func (h binderHandle) EventRecorder() events.EventRecorderLogger { return &events.FakeRecorder{} }
func (h binderHandle) ProfileName() string                       { return "binder" }
func (h binderHandle) KubeConfig() *restclient.Config            { return nil }

// An asyncCacher stands for the gate SchedulerAsyncAPICalls.
type asyncCacher struct {
	fwk.APICacher
	client *fake.Clientset
}

func (c asyncCacher) BindPod(b *v1.Binding) (<-chan error, error) {
	done := make(chan error, 1)
	go func() {
		done <- c.client.CoreV1().Pods(b.Namespace).Bind(context.Background(), b, metav1.CreateOptions{})
	}()
	return done, nil
}

func (c asyncCacher) WaitOnFinish(_ context.Context, done <-chan error) error { return <-done }

// outcomes are the counts of unclear bindings so far.
func outcomes(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	counts := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "sigma_unclear_bindings_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			counts[m.GetLabel()[0].GetValue()] += m.GetCounter().GetValue()
		}
	}
	return counts
}

// bindTo binds the pod of a store to node a.
func bindTo(t *testing.T, ctx context.Context, s *store, async bool) *fwk.Status {
	t.Helper()
	h := binderHandle{client: fake.NewClientset()}
	h.client.PrependReactor("create", "pods", s.bind)
	h.client.PrependReactor("get", "pods", s.get)
	if async {
		h.cacher = asyncCacher{client: h.client}
	}
	p, err := build(t.Context(), &config.SigmaArgs{
		PolicyName: "general", Mapping: config.MappingRank, Fleet: config.FleetFixed, ForecastMaxAge: metav1.Duration{Duration: time.Hour},
	}, h, nil)
	require.NoError(t, err)
	return p.Bind(ctx, nil, pod("web-1", "web").Obj(), "a")
}

func TestBind(t *testing.T) {
	conflict := answer(http.StatusConflict, "already assigned")
	away := errors.New("connection refused")
	to := func(node string) func(*store) error {
		return func(s *store) error {
			s.pod.Spec.NodeName = node
			return nil
		}
	}
	tests := []struct {
		name         string
		binds, reads []func(*store) error
		pod          *v1.Pod
		want         string // of the error; "" = bound
		bindings     int
		looked       int
	}{
		{name: "taken", bindings: 1},
		{name: "made, the answer lost", binds: []func(*store) error{made(io.ErrUnexpectedEOF)}, bindings: 1, looked: 1},
		{name: "made, 408", binds: []func(*store) error{made(answer(408, "slow"))}, bindings: 1, looked: 1},
		{name: "made, 429", binds: []func(*store) error{made(answer(429, "too many"))}, bindings: 1, looked: 1},
		{name: "made, 500", binds: []func(*store) error{made(answer(500, "no"))}, bindings: 1, looked: 1},
		{name: "made, 504", binds: []func(*store) error{made(answer(504, "slow"))}, bindings: 1, looked: 1},
		{name: "made by a request before", binds: []func(*store) error{made(conflict)}, bindings: 1, looked: 1},
		{name: "lost on the way", binds: []func(*store) error{not(away)}, bindings: 2, looked: 1},
		{name: "late", binds: []func(*store) error{not(away)}, reads: []func(*store) error{to("a")}, bindings: 2, looked: 2},
		{name: "another scheduler meanwhile", binds: []func(*store) error{not(away)}, reads: []func(*store) error{to("b")}, want: "the pod is on node b", bindings: 2, looked: 2},
		{name: "of another scheduler", pod: pod("web-1", "web").Node("b").Obj(), want: "the pod is on node b", bindings: 1, looked: 1},
		{name: "the store is slow, which is a conflict too", binds: []func(*store) error{not(answer(409, "etcdserver: request timed out"))}, bindings: 2, looked: 1},
		{name: "being deleted", pod: pod("web-1", "web").Terminating().Obj(), want: "is being deleted", bindings: 1, looked: 1},
		{name: "gone meanwhile", binds: []func(*store) error{func(s *store) error { s.pod = nil; return away }}, want: "the pod is gone", bindings: 1, looked: 1},
		{name: "another pod of that name", pod: pod("web-1", "web").UID("other").Obj(), binds: []func(*store) error{not(conflict)}, want: "the pod is gone", bindings: 1, looked: 1},
		{name: "400", binds: []func(*store) error{not(answer(400, "bad"))}, want: "bad", bindings: 1},
		{name: "401", binds: []func(*store) error{not(answer(401, "who"))}, want: "who", bindings: 1},
		{name: "403", binds: []func(*store) error{not(answer(403, "forbidden"))}, want: "forbidden", bindings: 1},
		{name: "404", binds: []func(*store) error{not(answer(404, "not found"))}, want: "not found", bindings: 1},
		{name: "422", binds: []func(*store) error{not(answer(422, "invalid"))}, want: "invalid", bindings: 1},
		{name: "never taken", binds: slices.Repeat([]func(*store) error{not(answer(500, "a webhook"))}, 10), want: "no node after 5 bindings; the last: a webhook", bindings: 5, looked: 5},
		{name: "reads refused at first", binds: []func(*store) error{made(away)}, reads: slices.Repeat([]func(*store) error{not(answer(403, "not yet"))}, 14), bindings: 1, looked: 15},
		{name: "no right to read", binds: []func(*store) error{made(away)}, reads: slices.Repeat([]func(*store) error{not(answer(403, "forbidden"))}, 20), want: "needs the right to get pods: forbidden", bindings: 1, looked: 15},
	}
	for _, tt := range tests {
		for _, async := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, async %t", tt.name, async), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &store{pod: tt.pod, binds: tt.binds, reads: tt.reads}
					if s.pod == nil {
						s.pod = pod("web-1", "web").Obj()
					}
					s.pod = s.pod.DeepCopy()
					before := outcomes(t)
					status := bindTo(t, t.Context(), s, async)
					if tt.want == "" {
						require.True(t, status.IsSuccess(), "%v", status)
						require.Equal(t, "a", s.pod.Spec.NodeName)
					} else {
						require.Equal(t, fwk.Error, status.Code())
						require.ErrorContains(t, status.AsError(), tt.want)
					}
					outcome := "not-bound"
					switch {
					case tt.want == "":
						outcome = "bound"
					case strings.Contains(tt.want, "right to get pods"):
						outcome = "unknown"
					}
					after := outcomes(t)
					after[outcome] -= float64(min(tt.looked, 1)) // an answer that is clear is not looked into
					before[outcome] += 0
					require.Equal(t, before, after)
					require.Len(t, s.targets, tt.bindings)
					require.Equal(t, tt.looked, s.looked)
					require.Equal(t, slices.Repeat([]string{"a"}, tt.bindings), s.targets)
					require.Equal(t, slices.Repeat([]types.UID{"web-1"}, tt.bindings), s.uids)
				})
			})
		}
	}
}

// While the API server is away there is no answer: the scheduler goes on counting the pod.
func TestBindWaitsForTheAPIServer(t *testing.T) {
	away := slices.Repeat([]func(*store) error{not(io.EOF)}, 10_000)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := &store{pod: pod("web-1", "web").Obj(), binds: []func(*store) error{made(io.EOF)}, reads: away[:60]}
		require.True(t, bindTo(t, t.Context(), s, false).IsSuccess())
		require.Greater(t, time.Since(begin), 4*time.Minute)
		require.Len(t, s.targets, 1, "it was not asked again")
	})
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := &store{pod: pod("web-1", "web").Obj(), binds: []func(*store) error{not(io.EOF)}, reads: away}
		require.ErrorContains(t, bindTo(t, t.Context(), s, false).AsError(), "does not say whether the pod was bound")
		require.Equal(t, 10*time.Minute, time.Since(begin))
		require.Less(t, s.looked, 200, "at most one read in five seconds, but for the first")
	})
	synctest.Test(t, func(t *testing.T) { // the scheduler ends
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := &store{pod: pod("web-1", "web").Obj(), binds: []func(*store) error{not(io.EOF)}, reads: away}
		require.ErrorIs(t, bindTo(t, ctx, s, false).AsError(), context.DeadlineExceeded)
		require.Empty(t, s.pod.Spec.NodeName)
	})
}
