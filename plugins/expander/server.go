package expander

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/plugins/engine"
	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// Options of a server.
type Options struct {
	Try     func(context.Context, engine.Offer) (places []int, err error)
	Ready   func() error // why it cannot answer yet
	Refresh func()       // brings the state up to date
	Prices  *kube.Prices
}

// A Server answers cluster-autoscaler.
type Server struct {
	opt Options
	mu  sync.Mutex // one call at a time: cluster-autoscaler makes no more
}

var (
	calls = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "sigma", Name: "expander_calls_total", StabilityLevel: metrics.ALPHA,
		Help: "Calls of cluster-autoscaler's expander, by outcome: one group, several of equal cost, abstained, or error.",
	}, []string{"outcome"})
	callSeconds = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem: "sigma", Name: "expander_call_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help: "Time to answer a call of cluster-autoscaler's expander.", Buckets: metrics.ExponentialBuckets(0.001, 2, 14),
	})
	register sync.Once
)

// New returns a server.
func New(opt Options) *Server {
	register.Do(func() { legacyregistry.MustRegister(calls, callSeconds) })
	return &Server{opt: opt}
}

// Bounds of a server. cluster-autoscaler sends all waiting pods once for each group, and waits for five seconds.
const (
	maxRequest  = 128 << 20
	connections = 16
	patience    = 4 * time.Second
)

// Serve answers on a listener until ctx ends, then finishes the calls that are under way.
func (s *Server) Serve(ctx context.Context, listener net.Listener, config *tls.Config) error {
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)), grpc.MaxRecvMsgSize(maxRequest), grpc.MaxConcurrentStreams(1), grpc.ConnectionTimeout(5*time.Second))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "grpcplugin.Expander", HandlerType: (*any)(nil), Metadata: "expander.proto",
		Methods: []grpc.MethodDesc{{MethodName: "BestOptions", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			r := &BestOptionsRequest{}
			if err := decode(r); err != nil {
				return nil, err
			}
			return s.BestOptions(ctx, r)
		}}},
	}, s)
	stop := context.AfterFunc(ctx, server.GracefulStop)
	defer stop()
	return server.Serve(netutil.LimitListener(listener, connections))
}

// BestOptions answers a call: the groups on which the pods cost least, or all. It never answers with none, which cluster-autoscaler would
// take for "add no node".
func (s *Server) BestOptions(ctx context.Context, r *BestOptionsRequest) (answer *BestOptionsResponse, err error) {
	begin := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	outcome := "error"
	defer func() {
		if p := recover(); p != nil {
			err = status.Errorf(codes.Internal, "panic: %v", p)
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "A call of cluster-autoscaler's expander failed")
		}
		calls.WithLabelValues(outcome).Inc()
		callSeconds.Observe(time.Since(begin).Seconds())
	}()
	if err := s.opt.Ready(); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.opt.Refresh()
	var bids []*bid
	for _, o := range r.GetOptions() {
		b, err := s.bid(ctx, o, r)
		if ctx.Err() != nil {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "group %s: %v", o.GetGroup(), err)
		}
		bids = append(bids, b)
	}
	best, why := choose(bids)
	outcome = "abstained"
	switch {
	case why == "" && len(best) == 1:
		outcome = "one"
	case why == "":
		outcome = "several"
	}
	answer = &BestOptionsResponse{}
	var names, all []string
	for _, b := range best {
		names = append(names, b.group)
		answer.Options = append(answer.Options, &Option{Group: b.group, Nodes: int32(b.nodes), Debug: b.String()})
	}
	for _, b := range bids {
		all = append(all, b.String())
	}
	klog.FromContext(ctx).Info("Answered cluster-autoscaler", "groups", strings.Join(names, ","), "abstained", why, "options", strings.Join(all, "; "))
	return answer, nil
}

// bid computes the cost of an option.
func (s *Server) bid(ctx context.Context, o *Option, r *BestOptionsRequest) (*bid, error) {
	template, err := nodeOf(r, o.GetGroup())
	if err != nil {
		return nil, err
	}
	pods, err := podsOf(o)
	if err != nil {
		return nil, err
	}
	b := &bid{group: o.GetGroup(), nodes: max(0, int(o.GetNodes())), pods: len(pods)}
	if b.nodes > mostNodes {
		return nil, fmt.Errorf("%d nodes: want at most %d", b.nodes, mostNodes)
	}
	b.price, b.by = s.opt.Prices.Of(template)
	places, err := s.opt.Try(ctx, engine.Offer{Node: template, Count: b.nodes, Pods: pods})
	if err != nil {
		return nil, err
	}
	used := map[int]bool{}
	for i, place := range places {
		if place >= 0 {
			used[place] = true
			b.placed++
			b.worth += worth(pods[i])
		}
	}
	b.used = len(used)
	return b, nil
}

// mostNodes bounds the nodes of an option.
const mostNodes = 15000

func nodeOf(r *BestOptionsRequest, group string) (*v1.Node, error) {
	text, ok := r.GetNodes()[group]
	if !ok {
		text, ok = r.GetOldNodes()[group]
	}
	if !ok {
		return nil, fmt.Errorf("the call has no node of it")
	}
	n := &v1.Node{}
	if err := n.Unmarshal(text); err != nil {
		return nil, fmt.Errorf("its node: %w", err)
	}
	return n, nil
}

func podsOf(o *Option) ([]*v1.Pod, error) {
	texts := o.GetPods()
	if len(texts) == 0 {
		texts = o.GetOldPods()
	}
	pods := make([]*v1.Pod, len(texts))
	for i, text := range texts {
		pods[i] = &v1.Pod{}
		if err := pods[i].Unmarshal(text); err != nil {
			return nil, fmt.Errorf("pod %d: %w", i, err)
		}
	}
	return pods, nil
}
