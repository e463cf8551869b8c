package extender

import (
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/sigma-scheduler/sigma/plugins/engine"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// maxUnseen bounds the size, in bytes, of the pods that are accepted before the cluster shows them.
const maxUnseen = 32 << 20

// view is the cluster as the informers report it, with the assumed pods.
type view struct {
	engine *engine.Engine
	ttl    time.Duration
	now    func() time.Time

	mu      sync.Mutex
	nodes   map[string]*v1.Node
	pods    map[types.UID]*v1.Pod            // that have a node
	on      map[string]map[types.UID]*v1.Pod // by node, assumed ones included
	dirty   map[string]bool                  // nodes that changed since the last visit
	assumed map[types.UID]assumption
	left    map[types.UID]assumption // pods whose node the scheduler chooses, not seen since
	waiting map[types.UID]bool       // pods without a node
	// unseen are pods of calls that the cluster does not show; unseenBytes is
	// the size of all.
	unseen      map[types.UID]ghost
	unseenBytes int
	seen        chan struct{} // closed when one of those is seen
}

type assumption struct {
	pod     *v1.Pod // with its node, if that is known
	expires time.Time
}

// A ghost is a pod that the cluster does not show.
type ghost struct {
	pod     *v1.Pod // its names only
	bytes   int
	expires time.Time
}

func newView(e *engine.Engine, ttl time.Duration, now func() time.Time) *view {
	return &view{
		engine: e, ttl: ttl, now: now,
		nodes: map[string]*v1.Node{}, pods: map[types.UID]*v1.Pod{}, on: map[string]map[types.UID]*v1.Pod{},
		dirty: map[string]bool{}, assumed: map[types.UID]assumption{}, left: map[types.UID]assumption{}, seen: make(chan struct{}),
		waiting: map[types.UID]bool{}, unseen: map[types.UID]ghost{},
	}
}

// follow keeps the view up to date; synced reports whether the cluster has been read.
func (v *view) follow(factory informers.SharedInformerFactory) (synced []cache.InformerSynced, err error) {
	nodes, err := factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { v.setNode(o.(*v1.Node)) },
		UpdateFunc: func(_, o any) { v.setNode(o.(*v1.Node)) },
		DeleteFunc: func(o any) {
			if n, ok := last(o).(*v1.Node); ok {
				v.removeNode(n.Name)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	pods, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { v.setPod(o.(*v1.Pod)) },
		UpdateFunc: func(_, o any) { v.setPod(o.(*v1.Pod)) },
		DeleteFunc: func(o any) {
			if p, ok := last(o).(*v1.Pod); ok {
				v.removePod(p)
			}
		},
	})
	return []cache.InformerSynced{nodes.HasSynced, pods.HasSynced}, err
}

// last returns the last known state of a deleted object.
func last(o any) any {
	if final, ok := o.(cache.DeletedFinalStateUnknown); ok {
		return final.Obj
	}
	return o
}

func (v *view) setNode(n *v1.Node) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.engine.NodeChanged(v.nodes[n.Name], n)
	v.nodes[n.Name] = n
	v.dirty[n.Name] = true
}

func (v *view) removeNode(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if n := v.nodes[name]; n != nil {
		v.engine.NodeChanged(n, nil)
	}
	delete(v.nodes, name)
	v.dirty[name] = true
}

// setPod stores a pod's node, and drops the assumptions about it.
func (v *view) setPod(p *v1.Pod) {
	ended := podspec.Ended(p)
	v.mu.Lock()
	v.show(p.UID)
	if p.Spec.NodeName == "" {
		v.waiting[p.UID] = true
		v.mu.Unlock()
		return
	}
	delete(v.waiting, p.UID)
	news := v.pods[p.UID] == nil
	v.drop(p.UID)
	if !ended {
		v.pods[p.UID] = p
		v.put(p)
	}
	v.mu.Unlock()
	if news && !ended {
		v.engine.Bound(p)
	}
}

func (v *view) removePod(p *v1.Pod) {
	v.engine.Deleted(p)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.show(p.UID)
	delete(v.waiting, p.UID)
	v.drop(p.UID)
}

// ask records a call about a pod. The number of pods that the cluster does not show is bounded, as
// their end would not be reported.
func (v *view) ask(p *v1.Pod) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pods[p.UID] != nil || v.waiting[p.UID] {
		return nil
	}
	v.show(p.UID)
	g := ghost{
		pod:   &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}},
		bytes: p.Size() + 1<<10, expires: v.now().Add(v.ttl),
	}
	if v.unseenBytes+g.bytes > maxUnseen {
		return &httpError{http.StatusServiceUnavailable, "too many pods were asked about that the cluster does not show"}
	}
	v.unseen[p.UID] = g
	v.unseenBytes += g.bytes
	return nil
}

// show records that the cluster shows a pod, or that this is no longer awaited.
func (v *view) show(uid types.UID) {
	v.unseenBytes -= v.unseen[uid].bytes
	delete(v.unseen, uid)
}

// put stores a pod on its node.
func (v *view) put(p *v1.Pod) {
	name := p.Spec.NodeName
	if v.on[name] == nil {
		v.on[name] = map[types.UID]*v1.Pod{}
	}
	v.on[name][p.UID] = p
	v.dirty[name] = true
}

// drop removes a pod from its node and from its assumed node.
func (v *view) drop(uid types.UID) {
	for _, p := range []*v1.Pod{v.pods[uid], v.assumed[uid].pod} {
		if p == nil {
			continue
		}
		name := p.Spec.NodeName
		if delete(v.on[name], uid); len(v.on[name]) == 0 {
			delete(v.on, name)
		}
		v.dirty[name] = true
	}
	delete(v.pods, uid)
	delete(v.assumed, uid)
	v.settle(uid)
}

// leave records that the scheduler chooses a pod's node.
func (v *view) leave(p *v1.Pod) {
	v.engine.Left(p)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pods[p.UID] == nil {
		v.left[p.UID] = assumption{p, v.now().Add(v.ttl)}
	}
}

// settle records that the node that the scheduler chose for a pod is known.
func (v *view) settle(uid types.UID) {
	if _, ok := v.left[uid]; ok {
		delete(v.left, uid)
		close(v.seen)
		v.seen = make(chan struct{})
	}
}

// unsettled returns the pods whose node the scheduler chose, but has not shown yet.
// seen is closed when that changes.
func (v *view) unsettled() (pods []*v1.Pod, seen <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, a := range v.left {
		pods = append(pods, a.pod)
	}
	return pods, v.seen
}

// assume counts a pod on a node until the cluster shows its node, or the
// assumption expires.
func (v *view) assume(p *v1.Pod, node string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if bound := v.pods[p.UID]; bound != nil { // the cluster was faster: the engine visits both nodes again
		v.dirty[bound.Spec.NodeName], v.dirty[node] = true, true
		return
	}
	placed := p.DeepCopy()
	placed.Spec.NodeName = node
	v.assumed[p.UID] = assumption{placed, v.now().Add(v.ttl)}
	v.put(placed)
}

// expire drops assumptions that are too old, and the one of the pod of this
// call: its binding failed. A pod that the cluster has not shown by then counts as deleted.
func (v *view) expire(asked types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	for uid, a := range v.assumed {
		if uid == asked || now.After(a.expires) {
			v.engine.BindFailed(a.pod)
			v.drop(uid)
		}
	}
	for uid, a := range v.left {
		if uid == asked || now.After(a.expires) {
			v.settle(uid)
		}
	}
	for uid, g := range v.unseen {
		if now.After(g.expires) {
			v.engine.Deleted(g.pod)
			v.show(uid)
		}
	}
}

// known reports for each of the nodes whether the cluster has it.
func (v *view) known(names []string) []bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := make([]bool, len(names))
	for i, name := range names {
		_, known[i] = v.nodes[name]
	}
	return known
}

// visit passes the changed nodes to the engine.
func (v *view) visit(all bool, set func(engine.Node), gone func(string)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if all {
		for name := range v.nodes {
			v.dirty[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.dirty)) {
		n, ok := v.nodes[name]
		if !ok {
			gone(name)
			continue
		}
		node := engine.Node{Object: n}
		for _, uid := range slices.Sorted(maps.Keys(v.on[name])) {
			node.Pods = append(node.Pods, v.on[name][uid])
		}
		set(node)
	}
	clear(v.dirty)
}
