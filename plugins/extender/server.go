package extender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	"github.com/sigma-scheduler/sigma/plugins/engine"
)

// Levels is the number of nodes that an extender can tell apart: the best gets
// 10, the next 9, and so on.
const Levels = int(extenderv1.MaxExtenderPriority)

// patience is well below a scheduler's timeout for an extender (httpTimeout).
const patience = time.Second

// Options of a server.
type Options struct {
	Engine *engine.Engine
	// AssumeTTL is how long a pod is assumed to be on our choice before the cluster
	// shows it.
	AssumeTTL time.Duration
	// MaxRequestBytes is the size above which a request is refused.
	MaxRequestBytes int64
	Now             func() time.Time // nil = the clock
}

// A Server answers an extender's calls.
type Server struct {
	opt    Options
	view   *view
	synced []cache.InformerSynced
	ready  atomic.Bool
	// patience is how long a call waits for the nodes of other pods.
	patience time.Duration
	// One call at a time: what one decides, the next has to see.
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
	s := &Server{opt: opt, view: newView(opt.Engine, opt.AssumeTTL, opt.Now), patience: patience}
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

// httpError is an error with the status that it is answered with.
type httpError struct {
	status int
	text   string
}

func (e *httpError) Error() string { return e.text }

// answer reads a call, answers it, and counts the result.
func (s *Server) answer(verb string, do func(*http.Request, *extenderv1.ExtenderArgs) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := s.opt.Now()
		result, err := s.call(w, r, do)
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
			if err := json.NewEncoder(w).Encode(result); err != nil {
				klog.FromContext(r.Context()).Error(err, "Cannot send an answer", "verb", verb)
			}
		}
		requests.WithLabelValues(verb, strconv.Itoa(status)).Inc()
		requestSeconds.WithLabelValues(verb).Observe(s.opt.Now().Sub(begin).Seconds())
	})
}

func (s *Server) call(w http.ResponseWriter, r *http.Request, do func(*http.Request, *extenderv1.ExtenderArgs) (any, error)) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if err := s.Ready(); err != nil {
		return nil, &httpError{http.StatusServiceUnavailable, err.Error()}
	}
	var args extenderv1.ExtenderArgs
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.opt.MaxRequestBytes))
	if err == nil {
		err = json.Unmarshal(text, &args)
	}
	if e := (*http.MaxBytesError)(nil); errors.As(err, &e) {
		return nil, &httpError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is larger than %d bytes", e.Limit)}
	}
	if err != nil {
		return nil, &httpError{http.StatusBadRequest, "the request is no ExtenderArgs: " + err.Error()}
	}
	switch {
	case args.Pod == nil:
		return nil, &httpError{http.StatusBadRequest, "Pod is missing"}
	case args.Pod.UID == "":
		return nil, &httpError{http.StatusBadRequest, "Pod.metadata.uid is missing"}
	case args.NodeNames == nil && args.Nodes == nil:
		return nil, &httpError{http.StatusBadRequest, "NodeNames and Nodes are missing"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return do(r, &args)
}

// namesOf are the names of the nodes that a call is about.
func namesOf(args *extenderv1.ExtenderArgs) []string {
	if args.NodeNames != nil {
		return *args.NodeNames
	}
	names := make([]string, len(args.Nodes.Items))
	for i := range args.Nodes.Items {
		names[i] = args.Nodes.Items[i].Name
	}
	return names
}

// filter refuses the nodes that a rule closes to the pod. It says that preemption
// does not help there, since upstream does not ask an extender what would.
func (s *Server) filter(r *http.Request, args *extenderv1.ExtenderArgs) (any, error) {
	s.sync(args.Pod.UID)
	check := s.opt.Engine.Check(args.Pod)
	if check != nil {
		if err := s.await(r.Context(), args.Pod); err != nil {
			return nil, err
		}
		s.sync(args.Pod.UID)
		check = s.opt.Engine.Check(args.Pod)
	}
	result := &extenderv1.ExtenderFilterResult{FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{}}
	open := map[string]bool{}
	names := make([]string, 0, len(namesOf(args)))
	for _, name := range namesOf(args) {
		if check != nil {
			if why := check.Refuses(name); why != "" {
				result.FailedAndUnresolvableNodes[name] = why
				continue
			}
		}
		open[name] = true
		names = append(names, name)
	}
	if len(names) == 1 { // it goes there, and we are not asked again
		s.opt.Engine.Reserve(args.Pod, names[0], nil)
		s.view.assume(args.Pod, names[0])
	}
	if args.NodeNames != nil {
		result.NodeNames = &names
		return result, nil
	}
	result.Nodes = &v1.NodeList{Items: []v1.Node{}}
	for i := range args.Nodes.Items {
		if open[args.Nodes.Items[i].Name] {
			result.Nodes.Items = append(result.Nodes.Items, args.Nodes.Items[i])
		}
	}
	return result, nil
}

// await waits until the nodes are known of the pods that a rule relates to this pod
// and whose node the scheduler chose: the policy only watches there. They are bound
// while the scheduler asks about the next pod.
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

// prioritize ranks the nodes and assumes that the pod goes to the first.
func (s *Server) prioritize(r *http.Request, args *extenderv1.ExtenderArgs) (any, error) {
	s.sync(args.Pod.UID)
	names := namesOf(args)
	v := s.opt.Engine.Rank(r.Context(), args.Pod, names)
	scores := make(map[string]int64, Levels)
	if v.Decides {
		for i, ranked := range v.Ranked[:min(len(v.Ranked), Levels)] {
			scores[ranked.Node] = extenderv1.MaxExtenderPriority - int64(i)
		}
		if len(v.Ranked) > 0 {
			s.opt.Engine.Reserve(args.Pod, v.Ranked[0].Node, v)
			s.view.assume(args.Pod, v.Ranked[0].Node)
		}
	}
	if !v.Decides || len(v.Ranked) == 0 {
		s.view.leave(args.Pod)
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
