package follow

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
)

const (
	// looked is the period at which the kernel is compared with its target state if no object has
	// changed.
	looked = time.Second
	// longestPause between attempts to write a status.
	longestPause = 30 * time.Second
	// patience with one call of the API server.
	patience = 10 * time.Second
	manager  = "sigma-flow-agent"
)

// Traffic is the traffic of a node since the last one.
type Traffic struct {
	Sizes         flow.Sketch
	Bytes         int64
	BitsPerSecond float64
	Load          *float64 // nil = unknown
}

// Options of Run.
type Options struct {
	Node   string // name of the node's object
	Kernel Kernel
	Hinter Hinter // nil: no hints
	Now    func() time.Time
}

// A Runner follows policies. Status and Saw may be called concurrently with Run.
type Runner struct {
	options    Options
	client     client.Client
	cache      cache.Cache
	follower   Follower
	last       atomic.Pointer[v1alpha1.NodeFlowsStatus]
	mu         sync.Mutex
	unsent     *Traffic                  // since the last status; mu guards it
	said       map[string]time.Time      // complaints of the last minute; mu guards it
	uid        atomic.Pointer[types.UID] // of the node
	fresh      chan struct{}             // there is something to write
	pods       cache.Informer            // of this node; nil until a policy wants hints or has a scope
	namespaces cache.Informer            // nil while no policy has a scope
	wrong      wrongSizes
	scoped     bool // the policy has asked for a scope in this step

	// Of the goroutine that writes, once resume is done.
	known   bool // own NodeFlows was read, or made
	number  int64
	pending *v1alpha1.NodeTraffic     // it may have been written
	sent    *v1alpha1.NodeFlowsStatus // that was written last
	failed  int
	next    time.Time // attempt to write
}

// New makes one. It sends nothing to the API server yet.
func New(config *rest.Config, o Options) (*Runner, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		return nil, err
	}
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.PodList{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	// Known beforehand: the agent starts while the API server is away, and before there are such kinds.
	kinds := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1alpha1.SchemeGroupVersion})
	kinds.Add(v1alpha1.SchemeGroupVersion.WithKind("FlowPolicy"), meta.RESTScopeRoot)
	kinds.AddSpecific(v1alpha1.SchemeGroupVersion.WithKind("NodeFlows"), v1alpha1.SchemeGroupVersion.WithResource("nodeflows"), v1alpha1.SchemeGroupVersion.WithResource("nodeflows"), meta.RESTScopeRoot)
	kinds.Add(nodeKind, meta.RESTScopeRoot)
	kinds.Add(namespaceKind, meta.RESTScopeRoot)
	kinds.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: kinds})
	if err != nil {
		return nil, err
	}
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(nodeKind)
	objects, err := cache.New(config, cache.Options{
		Scheme: scheme, Mapper: kinds, ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{
			node:           {Field: fields.OneTermEqualSelector("metadata.name", o.Node)},
			&corev1.Pod{}:  {Field: fields.OneTermEqualSelector("spec.nodeName", o.Node), Transform: strip},
			anyNamespace(): {Transform: stripNamespace},
		},
	})
	if err != nil {
		return nil, err
	}
	return &Runner{options: o, client: c, cache: objects, fresh: make(chan struct{}, 1), follower: Follower{Node: o.Node, Kernel: o.Kernel}}, nil
}

var nodeKind = schema.GroupVersionKind{Version: "v1", Kind: "Node"}

// Status is the last one found, or nil.
func (r *Runner) Status() *v1alpha1.NodeFlowsStatus { return r.last.Load() }

// Run follows policies until ctx ends. It leaves the kernel as it is then.
func (r *Runner) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	changed := make(chan struct{}, 1)
	tell := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(nodeKind)
	for _, o := range []client.Object{&v1alpha1.FlowPolicy{}, node} {
		informer, err := r.cache.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { tell() }, UpdateFunc: func(any, any) { tell() }, DeleteFunc: func(any) { tell() },
		}); err != nil {
			return err
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- r.cache.Start(ctx) }()
	if !r.cache.WaitForCacheSync(ctx) { // it waits for as long as the API server is away
		return <-ended
	}
	var writer sync.WaitGroup
	defer writer.Wait()
	defer stop() // first
	tick := time.NewTicker(looked)
	defer tick.Stop()
	writes := false
	for {
		r.step(ctx)
		if r.last.Load() != nil && !writes { // from here on it has the values that resume has set
			writes = true
			writer.Go(func() { r.write(ctx) })
		}
		select {
		case err := <-ended:
			return err
		case <-changed:
		case <-tick.C:
		}
	}
}

// Saw takes the node's traffic since the last call. It is reported with the next status that can be
// written.
func (r *Runner) Saw(t Traffic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unsent != nil {
		t.Sizes.Merge(r.unsent.Sizes)
		t.Bytes += r.unsent.Bytes
	}
	r.unsent = &t
}

// step applies the objects, and hands the status to the writer.
func (r *Runner) step(ctx context.Context) {
	if !r.known && !r.resume(ctx) {
		return
	}
	var node metav1.PartialObjectMetadata
	node.SetGroupVersionKind(nodeKind)
	if err := r.cache.Get(ctx, client.ObjectKey{Name: r.options.Node}, &node); err != nil {
		r.complain(fmt.Errorf("node %s: %w", r.options.Node, err)) // it is deleted, and nothing changes on it
		return
	}
	var list v1alpha1.FlowPolicyList
	if err := r.cache.List(ctx, &list); err != nil {
		r.complain(err)
		return
	}
	policies := make([]*v1alpha1.FlowPolicy, len(list.Items))
	for i := range list.Items {
		policies[i] = &list.Items[i]
	}
	r.follower.Hints = r.hints(ctx)
	r.follower.Scope = func(namespaces labels.Selector) ([]netip.Addr, bool) { return r.scope(ctx, namespaces) }
	r.scoped = false
	status := r.follower.Follow(policies, node.Labels)
	if !r.scoped {
		r.leaveNamespaces(ctx)
	}
	if last := r.last.Load(); last == nil || !equality.Semantic.DeepEqual(last.Conditions, status.Conditions) {
		klog.FromContext(ctx).Info("Following", "policy", status.Policy, "sequence", status.Sequence, "shaping", status.Conditions[0].Status, "why", status.Conditions[0].Message)
	}
	r.uid.Store(&node.UID)
	r.last.Store(&status)
	select {
	case r.fresh <- struct{}{}:
	default:
	}
}

// write writes the status in a goroutine of its own, so that a slow API server does not delay the kernel.
func (r *Runner) write(ctx context.Context) {
	tick := time.NewTicker(looked)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.fresh:
		case <-tick.C:
		}
		r.tell(ctx, *r.uid.Load(), r.last.Load())
	}
}

// resume reads the status written by the agent before. It reports false if it cannot.
func (r *Runner) resume(ctx context.Context) bool {
	if r.options.Now().Before(r.next) {
		return false
	}
	var own v1alpha1.NodeFlows
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := r.client.Get(ctx, client.ObjectKey{Name: r.options.Node}, &own)
	if apierrors.IsNotFound(err) {
		r.known = true
		return true
	}
	if err != nil {
		r.later(err)
		return false
	}
	r.follower.Resume(&own.Status)
	if own.Status.Traffic != nil {
		r.number = own.Status.Traffic.Number
	}
	r.sent, r.known, r.failed = &own.Status, true, 0
	return true
}

// tell writes the status if it has changed.
func (r *Runner) tell(ctx context.Context, node types.UID, status *v1alpha1.NodeFlowsStatus) {
	clock := r.options.Now()
	if clock.Before(r.next) {
		return
	}
	now := metav1.NewTime(clock.Truncate(time.Second)) // as it is written
	written := status.DeepCopy()
	if r.sent != nil {
		written.Traffic = r.sent.Traffic
	}
	for i := range written.Conditions {
		written.Conditions[i].LastTransitionTime = now
		if r.sent == nil {
			continue
		}
		if old := meta.FindStatusCondition(r.sent.Conditions, written.Conditions[i].Type); old != nil && old.Status == written.Conditions[i].Status {
			written.Conditions[i].LastTransitionTime = old.LastTransitionTime
		}
	}
	if r.pending == nil {
		r.pending = r.take()
	}
	if r.pending != nil {
		r.pending.Until = now
		written.Traffic = r.pending
	}
	if r.sent != nil {
		written.At = r.sent.At
		if equality.Semantic.DeepEqual(r.sent, written) {
			return
		}
	}
	written.At = now
	if err := r.apply(ctx, node, written); err != nil {
		if ctx.Err() == nil {
			r.later(err)
		}
		return
	}
	r.sent, r.failed, r.pending = written, 0, nil
}

// take returns the traffic to send under the next number, or nil. It stays under that number until a write of it is
// known to have succeeded: central takes a number once.
func (r *Runner) take() *v1alpha1.NodeTraffic {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.unsent
	if t == nil {
		return nil
	}
	r.unsent = nil
	r.number++
	return &v1alpha1.NodeTraffic{
		Number: r.number, BitsPerSecond: t.BitsPerSecond, Load: t.Load, Bytes: t.Bytes, First: int32(t.Sizes.First), Counts: t.Sizes.Counts,
	}
}

// apply writes the status, of an object that it makes if there is none.
func (r *Runner) apply(ctx context.Context, node types.UID, status *v1alpha1.NodeFlowsStatus) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	patch := func() error {
		o := &v1alpha1.NodeFlows{ObjectMeta: metav1.ObjectMeta{Name: r.options.Node}, Status: *status}
		o.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("NodeFlows"))
		return r.client.Status().Patch(ctx, o, client.Apply, client.FieldOwner(manager), client.ForceOwnership) //nolint:staticcheck // the other form wants generated builders
	}
	err := patch()
	if !apierrors.IsNotFound(err) {
		return err
	}
	made := &v1alpha1.NodeFlows{ObjectMeta: metav1.ObjectMeta{
		Name:            r.options.Node,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: r.options.Node, UID: node}},
	}}
	if err := r.client.Create(ctx, made); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return patch()
}

// later puts the next attempt off, the longer the more have failed.
func (r *Runner) later(err error) {
	pause := min(looked<<min(r.failed, 10), longestPause)
	r.failed++
	r.next = r.options.Now().Add(pause)
	r.complain(err)
}

func (r *Runner) complain(err error) {
	if !r.isNew(err) {
		return
	}
	klog.Background().Error(err, "Cannot follow policies; the kernel goes on", "node", r.options.Node)
}

// repeated is how often the same complaint is heard, and mostComplaints how many others in that time.
const (
	repeated       = time.Minute
	mostComplaints = 16
)

// isNew reports whether this error was not logged within the last minute.
func (r *Runner) isNew(err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, text := r.options.Now(), err.Error()
	maps.DeleteFunc(r.said, func(_ string, at time.Time) bool { return now.Sub(at) >= repeated })
	if _, ok := r.said[text]; ok || len(r.said) == mostComplaints {
		return false
	}
	if r.said == nil {
		r.said = map[string]time.Time{}
	}
	r.said[text] = now
	return true
}
