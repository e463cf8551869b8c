package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/sigma-scheduler/sigma/internal/usage"
	"github.com/sigma-scheduler/sigma/mpa/actuate"
	"github.com/sigma-scheduler/sigma/plugins/evict"
	"github.com/sigma-scheduler/sigma/plugins/owner"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// The extended resources of nodes, and the label of pods or namespaces whose Jobs may have them.
const (
	CPU    = podspec.BatchCPU    // thousandths of a core
	Memory = podspec.BatchMemory // bytes
	Label  = "sigma-scheduler.io/batch"
)

// Modes of the part.
const (
	Observe = "Observe" // metrics only; resources that were published are removed
	Apply   = "Apply"
)

// mostEvictions within an hour, so that batch pods leave room in the list of evictions for others.
const mostEvictions = 2000

// Options of the part.
type Options struct {
	Settings
	Mode  string
	Every time.Duration
	// Prometheus are the servers that the history of 28 days is read from, Match their matchers; none = online pods
	// count at their requests. Folder keeps the days.
	Prometheus    []string
	Match, Folder string
}

// AddFlags adds a flag for each option.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Mode, "mode", Observe, "Observe: metrics alone, and published resources are removed; Apply: publish "+CPU+" and "+Memory+", and evict")
	flags.DurationVar(&o.Every, "every", time.Minute, "time between two looks at the nodes")
	flags.DurationVar(&o.Grace, "grace", usage.BatchGrace*time.Second, "how long batch pods may hold more than is offered; then the youngest leave")
	flags.DurationVar(&o.Starving, "starving", 5*time.Minute, "how long online pods may leave less than 60 % of the cpu that batch pods hold; then the youngest leave")
	flags.DurationVar(&o.Stale, "stale", 5*time.Minute, "age of the last use of a node from which nothing is offered on it")
	flags.Float64Var(&o.Growth, "growth", usage.BatchGrowth, "the most by which an offer grows, as a share of the node an hour")
	flags.StringSliceVar(&o.Prometheus, "prometheus", nil, "URLs of the Prometheus servers with 28 days of use; none: online pods count at their requests")
	flags.StringVar(&o.Match, "prometheus-match", "", "matchers of labels for all queries, such as cluster=\"a\"")
	flags.StringVar(&o.Folder, "usage-history", "", "folder that keeps the days read from Prometheus")
}

// Validate returns the invalid option, by flag.
func (o *Options) Validate() error {
	switch {
	case o.Mode != Observe && o.Mode != Apply:
		return fmt.Errorf("--mode %q: want %s or %s", o.Mode, Observe, Apply)
	case o.Every < time.Second:
		return fmt.Errorf("--every %v: want 1s or more", o.Every)
	case o.Stale < o.Every:
		return fmt.Errorf("--stale %v: want --every %v or more", o.Stale, o.Every)
	case !(o.Growth > 0 && o.Growth < 1e9):
		return fmt.Errorf("--growth %v: want more than 0", o.Growth)
	case o.Grace < 0:
		return fmt.Errorf("--grace %v: want 0s or more", o.Grace)
	case o.Starving < 0:
		return fmt.Errorf("--starving %v: want 0s or more", o.Starving)
	case len(o.Prometheus) > 0 && o.Folder == "":
		return errors.New("--prometheus needs --usage-history, a folder that keeps the days")
	}
	return nil
}

var (
	gauges = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sigma_mpa_batch_cores", Help: "Cores of a node: offered to batch pods, held by them, used by online pods, and expected of these in the next two hours.",
	}, []string{"node", "of"})
	unknown   = prometheus.NewGauge(prometheus.GaugeOpts{Name: "sigma_mpa_batch_unknown_nodes", Help: "Nodes that offer nothing, since the use of their pods is not known."})
	evictions = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sigma_mpa_batch_evictions_total", Help: "Batch pods that should leave their node, by result."}, []string{"result"})
)

func init() { ctrlmetrics.Registry.MustRegister(gauges, unknown, evictions) }

// A controller looks at all nodes from time to time.
type controller struct {
	Options
	client   client.Client // reads from caches
	metrics  metricsclient.PodMetricsesGetter
	evictor  *evict.Evictor
	clock    clock.PassiveClock
	nodes    map[string]*Node
	forecast *forecast
}

// Setup adds the part to a manager.
func Setup(m manager.Manager, o Options) error {
	metrics, err := metricsclient.NewForConfigAndClient(m.GetConfig(), m.GetHTTPClient())
	if err != nil {
		return err
	}
	now := clock.RealClock{}
	for _, object := range []client.Object{&v1.Node{}, &v1.Pod{}} { // filled before the first look
		if _, err := m.GetCache().GetInformer(context.Background(), object); err != nil {
			return err
		}
	}
	c := &controller{
		Options: o, client: m.GetClient(), metrics: metrics, clock: now, nodes: map[string]*Node{},
		evictor:  evict.New(actuate.Cluster(m.GetClient(), m.GetAPIReader()), evict.Batch, evict.Limits{}, now),
		forecast: &forecast{options: o, client: m.GetClient(), clock: now},
	}
	return m.Add(c)
}

// NeedLeaderElection is true: only one process publishes and evicts.
func (c *controller) NeedLeaderElection() bool { return true }

// Start looks at the nodes until ctx ends.
func (c *controller) Start(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait.UntilWithContext(ctx, c.forecast.due, time.Minute)
	}()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := c.look(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Cannot offer cpu to batch pods on all nodes")
		}
	}, c.Every)
	<-done
	return nil
}

// look decides about each node once.
func (c *controller) look(ctx context.Context) error {
	var nodes v1.NodeList
	var pods v1.PodList
	if err := errors.Join(c.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy), c.client.List(ctx, &pods, client.UnsafeDisableDeepCopy)); err != nil {
		return err
	}
	now := c.clock.Now() // of all samples, however long the look takes
	used, failed := c.used(ctx)
	on := map[string][]*v1.Pod{}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Spec.NodeName != "" && !podspec.Ended(p) {
			on[p.Spec.NodeName] = append(on[p.Spec.NodeName], p)
		}
	}
	lacking, there := 0, map[string]bool{}
	errs := []error{failed}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		there[n.Name] = true
		d, err := c.decide(ctx, n, on[n.Name], used, now)
		if d.Why != "" && d.CPU == 0 && len(d.Evict) == 0 {
			lacking++
		}
		errs = append(errs, err)
	}
	for name := range c.nodes {
		if !there[name] {
			delete(c.nodes, name)
			gauges.DeletePartialMatch(prometheus.Labels{"node": name})
		}
	}
	unknown.Set(float64(lacking))
	return errors.Join(errs...)
}

// decide carries out the decision about one node.
func (c *controller) decide(ctx context.Context, n *v1.Node, pods []*v1.Pod, used map[types.NamespacedName]sample, now time.Time) (Decision, error) {
	state := c.nodes[n.Name]
	if state == nil {
		state = &Node{}
		if q, ok := n.Status.Allocatable[CPU]; ok && c.Mode == Apply {
			state.Resume(float64(q.Value())/1000, now)
		}
		c.nodes[n.Name] = state
	}
	in := c.seen(n, pods, used, now)
	d := state.Decide(c.Settings, in)
	held := 0.
	for _, h := range in.Held {
		held += h.CPU
	}
	for of, v := range map[string]float64{"offered": float64(d.CPU) / 1000, "held": held, "used": in.Used, "expected": usage.Expected(seconds(now), in.Expected)} {
		gauges.WithLabelValues(n.Name, of).Set(v)
	}
	if c.Mode != Apply {
		return d, c.publish(ctx, n, nil)
	}
	err := c.publish(ctx, n, &d)
	for _, h := range d.Evict {
		i := slices.IndexFunc(pods, func(p *v1.Pod) bool { return p.Namespace == h.Namespace && p.Name == h.Name })
		one := c.evictor.EvictAs(ctx, evict.Batch, mostEvictions, pods[i])
		result := "Evicted"
		switch {
		case errors.Is(one, evict.ErrGone):
			result = "Gone"
		case one != nil:
			result, err = "Refused", errors.Join(err, one)
		}
		evictions.WithLabelValues(result).Inc()
		log.FromContext(ctx).Info("A batch pod leaves", "pod", h.Namespace+"/"+h.Name, "node", n.Name, "why", d.Why, "result", result)
	}
	return d, err
}

// seen sums up a node's pods.
func (c *controller) seen(n *v1.Node, pods []*v1.Pod, used map[types.NamespacedName]sample, now time.Time) Seen {
	room := podspec.Amounts(n.Status.Allocatable)
	in := Seen{Now: now, Capacity: float64(room["cpu"]) / 1000, Memory: room["memory"]}
	var online []func(slot int) float64
	for _, p := range pods {
		demand := podspec.Demand(p)
		if podspec.Batch(p) {
			if p.DeletionTimestamp == nil { // the others leave already
				h := heldBy(p, demand)
				if s, ok := used[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]; ok && now.Sub(s.at) <= c.Stale {
					h.Uses = s.bytes
				}
				in.Held = append(in.Held, h)
			}
			continue
		}
		request, bytes := float64(demand["cpu"])/1000, demand["memory"]
		online = append(online, c.forecast.of(p, request, now))
		s, ok := used[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]
		if ok && now.Sub(s.at) <= c.Stale {
			in.Used, bytes = in.Used+s.cores, max(bytes, s.bytes)
			if s.at.After(in.UsedAt) {
				in.UsedAt = s.at
			}
		} else {
			in.Used += request
		}
		in.Requested += bytes
	}
	if len(online) == 0 {
		in.UsedAt = now
	}
	in.Expected = func(at float64) (sum float64) {
		slot := usage.SlotOf(at)
		for _, of := range online {
			sum += of(slot)
		}
		return sum
	}
	return in
}

func heldBy(p *v1.Pod, demand map[string]int64) Held {
	h := Held{Namespace: p.Namespace, Name: p.Name, CPU: float64(demand[CPU]) / 1000, Memory: demand[Memory], Begun: p.CreationTimestamp.Time}
	if p.Status.StartTime != nil {
		h.Begun = p.Status.StartTime.Time
	}
	if p.Spec.Priority != nil {
		h.Priority = *p.Spec.Priority
	}
	return h
}

// A sample is the use of a pod.
type sample struct {
	cores float64
	bytes int64
	at    time.Time
}

// used is the use of all pods, by the metrics API.
func (c *controller) used(ctx context.Context) (map[types.NamespacedName]sample, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	list, err := c.metrics.PodMetricses("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("the metrics API: %w", err)
	}
	out := make(map[types.NamespacedName]sample, len(list.Items))
	for i := range list.Items {
		m := &list.Items[i]
		s := sample{at: m.Timestamp.Time}
		for _, k := range m.Containers {
			s.cores += max(0, k.Usage.Cpu().AsApproximateFloat64())
			s.bytes += max(0, k.Usage.Memory().Value())
		}
		out[types.NamespacedName{Namespace: m.Namespace, Name: m.Name}] = s
	}
	return out, nil
}

// publish writes the resources of a node where they differ; nil removes them. They are multiples of a hundredth of the
// node, so that it does not change every minute.
func (c *controller) publish(ctx context.Context, n *v1.Node, d *Decision) error {
	list := map[string]any{}
	for name, step := range map[v1.ResourceName]int64{
		CPU:    max(1, n.Status.Allocatable.Cpu().MilliValue()/100),
		Memory: max(1, n.Status.Allocatable.Memory().Value()/100),
	} {
		is, ok := n.Status.Allocatable[name]
		most, has := n.Status.Capacity[name]
		if d == nil {
			if ok || has {
				list[string(name)] = nil
			}
			continue
		}
		v := d.CPU / step * step
		if name == Memory {
			v = d.Memory / step * step
		}
		if d.CPU < 1 {
			v = 0
		}
		if !ok || !has || is.Value() != v || most.Value() != v {
			list[string(name)] = fmt.Sprint(v)
		}
	}
	if len(list) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": list, "allocatable": list}})
	if err != nil {
		return err
	}
	object := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	return client.IgnoreNotFound(c.client.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)))
}

// workloadOf is the workload of a pod, as histories name it; "" = none.
func workloadOf(p *v1.Pod) string {
	if ref, ok := owner.Of(p, nil); ok {
		return p.Namespace + "/" + ref.Kind + "/" + ref.Name
	}
	return ""
}
