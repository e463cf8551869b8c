package extender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/sigma-scheduler/sigma/internal/serve"
	"github.com/sigma-scheduler/sigma/plugins/engine"
)

// Levels is the number of nodes that an extender can distinguish: the best gets
// 10, the next 9, and so on.
const Levels = int(extenderv1.MaxExtenderPriority)

// patience is well below a scheduler's timeout for an extender (httpTimeout).
const patience = time.Second

// unknownNode is the reason for the refusal of a node that the view does not have.
const unknownNode = "the extender does not know this node"

// Options of a server.
type Options struct {
	Engine *engine.Engine
	// AssumeTTL is the time for which a pod is assumed to be on our choice before the cluster
	// shows it.
	AssumeTTL time.Duration
	// MaxRequestBytes is the size above which a request is refused.
	MaxRequestBytes int64
	// Waiting returns an error that names objects to be read before the first response; nil = all are read.
	// Without it, the server waits for nodes, pods and rules.
	Waiting func() error
	Now     func() time.Time // nil = the clock
}

// A Server answers an extender's calls.
type Server struct {
	opt    Options
	view   *view
	synced []cache.InformerSynced
	ready  atomic.Bool
	bodies *serve.Bodies
	// patience is the timeout of a call's wait for the nodes of other pods.
	patience time.Duration
	// One call at a time: the next one must see the decision of the previous one.
	mu sync.Mutex
}

var (
	// Upstream ignores an error of prioritize and logs it at V(5) only.
	requests = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "sigma", Name: "extender_requests_total", StabilityLevel: metrics.ALPHA,
		Help: "Calls of the extender, by verb and HTTP status.",
	}, []string{"verb", "code"})
	requestSeconds = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: "sigma", Name: "extender_request_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Time to answer a call of the extender.",
		Buckets: metrics.ExponentialBuckets(0.0001, 2, 14),
	}, []string{"verb"})
	register sync.Once
)

// New returns a server that follows the cluster through a factory. The caller starts
// the factory's informers.
func New(opt Options, factory informers.SharedInformerFactory) (*Server, error) {
	register.Do(func() { legacyregistry.MustRegister(requests, requestSeconds) })
	if opt.Now == nil {
		opt.Now = time.Now
	}
	s := &Server{
		opt: opt, view: newView(opt.Engine, opt.AssumeTTL, opt.Now), patience: patience,
		// One is decoded while another is decided.
		bodies: serve.NewBodies(opt.MaxRequestBytes, 0, 2),
	}
	var err error
	s.synced, err = s.view.follow(factory)
	return s, err
}

// Refresh brings the engine up to date without a call.
func (s *Server) Refresh() {
	if s.Ready() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sync("")
}

// Ready returns why the server cannot answer yet; nil when it can.
func (s *Server) Ready() error {
	if s.opt.Waiting != nil {
		if err := s.opt.Waiting(); err != nil {
			return err
		}
	}
	if err := s.opt.Engine.Ready(); err != nil {
		return err
	}
	if s.ready.Load() {
		return nil
	}
	for _, synced := range s.synced {
		if !synced() {
			return errors.New("nodes and pods are not read yet")
		}
	}
	s.ready.Store(true)
	return nil
}

// Handler answers /filter and /prioritize.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /filter", s.answer("filter", s.filter))
	mux.Handle("POST /prioritize", s.answer("prioritize", s.prioritize))
	return mux
}

// httpError is an error with its HTTP status.
type httpError struct {
	status int
	text   string
}

func (e *httpError) Error() string { return e.text }

// answer reads a call, answers it, and counts the result.
func (s *Server) answer(verb string, do func(context.Context, *args) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := s.opt.Now()
		text, done, err := s.bodies.Read(w, r)
		defer done()
		if e := (*serve.BodyError)(nil); errors.As(err, &e) {
			err = &httpError{e.Status, e.Text}
		}
		var answer []byte
		if err == nil {
			answer, err = s.call(r.Context(), text, do)
		}
		status := http.StatusOK
		if err != nil {
			status = http.StatusInternalServerError
			if e := (*httpError)(nil); errors.As(err, &e) {
				status = e.status
			}
			klog.FromContext(r.Context()).Error(err, "An extender call failed", "verb", verb, "status", status)
			http.Error(w, err.Error(), status)
		} else {
			w.Header().Set("Content-Type", "application/json")
			if _, err := w.Write(answer); err != nil {
				klog.FromContext(r.Context()).Error(err, "Cannot send an answer", "verb", verb)
			}
		}
		requests.WithLabelValues(verb, strconv.Itoa(status)).Inc()
		requestSeconds.WithLabelValues(verb).Observe(s.opt.Now().Sub(begin).Seconds())
	})
}

// call decodes a call, decides it, and encodes the response. No step that a caller can
// make large or slow is under the lock.
func (s *Server) call(ctx context.Context, text []byte, do func(context.Context, *args) (any, error)) (answer []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if err := s.Ready(); err != nil {
		return nil, &httpError{http.StatusServiceUnavailable, err.Error()}
	}
	done, err := s.bodies.Turn(ctx)
	defer done()
	if err != nil {
		return nil, &httpError{http.StatusServiceUnavailable, err.Error()}
	}
	a, err := decode(text)
	if err != nil {
		return nil, err
	}
	a.pod.ManagedFields = nil // as in the informers: it is large, and never read
	result, err := s.decide(ctx, a, do)
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

func (s *Server) decide(ctx context.Context, a *args, do func(context.Context, *args) (any, error)) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sync(a.pod.UID)
	if err := s.view.ask(a.pod); err != nil {
		return nil, err
	}
	return do(ctx, a)
}

// filter refuses the nodes that a rule or a reservation closes to the pod. It reports that preemption
// does not help there, since upstream does not query an extender for pods whose removal would help.
//
// Nodes that the view lacks are refused too: a pod is assumed nowhere else. If
// no other node remains, the call fails, and is repeated soon, as the view may lag.
func (s *Server) filter(ctx context.Context, a *args) (any, error) {
	check := s.opt.Engine.Check(a.pod)
	if check != nil {
		if err := s.await(ctx, a.pod); err != nil {
			return nil, err
		}
		s.sync(a.pod.UID)
		check = s.opt.Engine.Check(a.pod)
	}
	result := &filterResult{FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{}}
	names := make([]string, 0, len(a.names))
	nodes := []sentNode{}
	known, unknown := s.view.known(a.names), ""
	for i, name := range a.names {
		why := ""
		if check != nil {
			why = check.Refusal(name)
		}
		if !known[i] {
			why, unknown = unknownNode, name
		}
		if why != "" {
			result.FailedAndUnresolvableNodes[name] = why
			continue
		}
		names = append(names, name)
		if a.nodes != nil {
			nodes = append(nodes, a.nodes[i])
		}
	}
	if len(names) == 0 && unknown != "" {
		return nil, &httpError{http.StatusServiceUnavailable, fmt.Sprintf("node %q is not known yet, and no other is left", unknown)}
	}
	if len(names) == 1 { // it is assigned to that node, and there is no second call
		s.opt.Engine.Reserve(a.pod, names[0], nil)
		s.view.assume(a.pod, names[0])
	}
	if a.nodes == nil {
		result.NodeNames = &names
	} else {
		result.Nodes = &sentNodes{Items: nodes}
	}
	return result, nil
}

// await waits until the nodes of the pods are known that a rule relates to this pod
// and whose node the scheduler chose: the policy only observes there. They are bound
// while the scheduler queries the next pod.
func (s *Server) await(ctx context.Context, pod *v1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	for {
		pods, seen := s.view.unsettled()
		i := slices.IndexFunc(pods, func(p *v1.Pod) bool { return s.opt.Engine.Related(pod, p) })
		if i < 0 {
			return nil
		}
		select {
		case <-seen:
		case <-ctx.Done():
			return &httpError{http.StatusServiceUnavailable, fmt.Sprintf("a placement rule is about pod %s too, and where that goes is not known yet", klog.KObj(pods[i]))}
		}
	}
}

// prioritize ranks the nodes and assumes that the pod is on the first.
func (s *Server) prioritize(ctx context.Context, a *args) (any, error) {
	names := a.names
	v := s.opt.Engine.Rank(ctx, a.pod, names)
	scores := make(map[string]int64, Levels)
	if v.Decides {
		for i, ranked := range v.Ranked[:min(len(v.Ranked), Levels)] {
			scores[ranked.Node] = extenderv1.MaxExtenderPriority - int64(i)
		}
		if len(v.Ranked) > 0 {
			s.opt.Engine.Reserve(a.pod, v.Ranked[0].Node, v)
			s.view.assume(a.pod, v.Ranked[0].Node)
		}
	}
	if !v.Decides || len(v.Ranked) == 0 {
		s.view.leave(a.pod)
	}
	out := make(extenderv1.HostPriorityList, len(names))
	for i, name := range names {
		out[i] = extenderv1.HostPriority{Host: name, Score: scores[name]}
	}
	return out, nil
}

// sync brings the engine up to date before a pod is decided on.
func (s *Server) sync(pod types.UID) {
	s.view.expire(pod)
	s.opt.Engine.Sync(s.view.visit)
}
