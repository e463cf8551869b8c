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
	"google.golang.org/grpc/keepalive"
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
	Try     func(context.Context, []engine.Offer) (places [][]int, err error)
	Ready   func() error // why it cannot answer yet
	Refresh func()       // brings the state up to date
	Prices  *kube.Prices
}

// A Server answers cluster-autoscaler.
type Server struct {
	opt  Options
	turn chan struct{} // full while a call is decoded and computed: cluster-autoscaler makes one at a time
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
	return &Server{opt: opt, turn: make(chan struct{}, 1)}
}

// Bounds of a server. cluster-autoscaler sends all waiting pods once for each group, over one connection, and waits for five seconds.
const (
	maxRequest  = 64 << 20 // each connection may hold one, of which one is decoded
	connections = 8
	patience    = 4 * time.Second
	mostOptions = 1000
	mostPods    = 100000 // of all options
	mostNodes   = 15000  // of an option
)

// calm ends connections without calls, and those with calls that send nothing, so that they do not keep cluster-autoscaler out.
var calm = keepalive.ServerParameters{
	MaxConnectionIdle: 3 * time.Second, MaxConnectionAge: time.Minute, MaxConnectionAgeGrace: patience + time.Second,
	Time: 10 * time.Second, Timeout: 5 * time.Second,
}

// Serve answers on a listener until ctx ends, then finishes the calls that are under way.
func (s *Server) Serve(ctx context.Context, listener net.Listener, config *tls.Config) error {
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)), grpc.MaxRecvMsgSize(maxRequest), grpc.MaxConcurrentStreams(1),
		grpc.ConnectionTimeout(5*time.Second), grpc.KeepaliveParams(calm))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "grpcplugin.Expander", HandlerType: (*any)(nil), Metadata: "expander.proto",
		Methods: []grpc.MethodDesc{{MethodName: "BestOptions", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return s.call(ctx, decode)
		}}},
	}, s)
	stop := context.AfterFunc(ctx, func() {
		defer time.AfterFunc(patience+time.Second, server.Stop).Stop()
		server.GracefulStop()
	})
	defer stop()
	return server.Serve(netutil.LimitListener(listener, connections))
}

// An outcome is a computed answer.
type outcome struct {
	answer *BestOptionsResponse
	name   string // in the metrics
	err    error
}

// call answers a call within its time, or with an error. Work that does not notice the end of the time keeps its turn until it ends.
func (s *Server) call(ctx context.Context, decode func(any) error) (answer *BestOptionsResponse, err error) {
	begin, name := time.Now(), "error"
	defer func() {
		if err != nil {
			klog.FromContext(ctx).Error(err, "A call of cluster-autoscaler's expander failed")
		}
		calls.WithLabelValues(name).Inc()
		callSeconds.Observe(time.Since(begin).Seconds())
	}()
	if err := s.opt.Ready(); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	r := &BestOptionsRequest{}
	if err := decode(r); err != nil { // the message is in memory
		<-s.turn
		return nil, err
	}
	ended := make(chan outcome, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				ended <- outcome{err: status.Errorf(codes.Internal, "panic: %v", p)}
			}
			<-s.turn
		}()
		ended <- s.compute(ctx, r)
	}()
	select {
	case o := <-ended:
		if o.err == nil {
			name = o.name
		}
		return o.answer, o.err
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// compute returns the groups on which the pods cost least, or all. It never answers with none, which cluster-autoscaler would take for
// "add no node".
func (s *Server) compute(ctx context.Context, r *BestOptionsRequest) outcome {
	bids, offers, err := s.read(ctx, r)
	var places [][]int
	if err == nil {
		s.opt.Refresh()
		places, err = s.opt.Try(ctx, offers)
	}
	switch {
	case ctx.Err() != nil:
		return outcome{err: status.FromContextError(ctx.Err()).Err()}
	case err != nil:
		return outcome{err: status.Error(codes.InvalidArgument, err.Error())}
	}
	for i, b := range bids {
		b.count(offers[i].Pods, places[i])
	}
	best, why := choose(bids)
	name := "abstained"
	switch {
	case why == "" && len(best) == 1:
		name = "one"
	case why == "":
		name = "several"
	}
	answer := &BestOptionsResponse{}
	var names, all []string
	for _, b := range best {
		names = append(names, b.group)
		answer.Options = append(answer.Options, &Option{Group: b.group, Nodes: int32(b.nodes), Debug: b.String()})
	}
	for _, b := range bids {
		all = append(all, b.String())
	}
	klog.FromContext(ctx).Info("Answered cluster-autoscaler", "groups", strings.Join(names, ","), "abstained", why, "options", strings.Join(all, "; "))
	return outcome{answer: answer, name: name}
}

// read decodes the nodes and pods of the options.
func (s *Server) read(ctx context.Context, r *BestOptionsRequest) (bids []*bid, offers []engine.Offer, err error) {
	if n := len(r.GetOptions()); n > mostOptions {
		return nil, nil, fmt.Errorf("%d options: want at most %d", n, mostOptions)
	}
	left := mostPods
	for _, o := range r.GetOptions() {
		if left -= max(len(o.GetPods()), len(o.GetOldPods())); left < 0 {
			return nil, nil, fmt.Errorf("more than %d pods", mostPods)
		}
	}
	for _, o := range r.GetOptions() {
		template, err := nodeOf(r, o.GetGroup())
		if err != nil {
			return nil, nil, fmt.Errorf("group %s: %w", o.GetGroup(), err)
		}
		pods, err := podsOf(ctx, o)
		if err != nil {
			return nil, nil, fmt.Errorf("group %s: %w", o.GetGroup(), err)
		}
		b := &bid{group: o.GetGroup(), nodes: max(0, int(o.GetNodes())), pods: len(pods)}
		if b.nodes > mostNodes {
			return nil, nil, fmt.Errorf("group %s: %d nodes: want at most %d", b.group, b.nodes, mostNodes)
		}
		b.price, b.by = s.opt.Prices.Of(template)
		bids, offers = append(bids, b), append(offers, engine.Offer{Node: template, Count: b.nodes, Pods: pods})
	}
	return bids, offers, nil
}

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

func podsOf(ctx context.Context, o *Option) ([]*v1.Pod, error) {
	texts := o.GetPods()
	if len(texts) == 0 {
		texts = o.GetOldPods()
	}
	pods := make([]*v1.Pod, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		pods[i] = &v1.Pod{}
		if err := pods[i].Unmarshal(text); err != nil {
			return nil, fmt.Errorf("pod %d: %w", i, err)
		}
	}
	return pods, nil
}
