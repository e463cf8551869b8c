package sigma

import (
	"context"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/clock"

	"github.com/sigma-scheduler/sigma/plugins/drain"
	"github.com/sigma-scheduler/sigma/plugins/evict"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// PostFilter makes room for a pod that fits on no node. It succeeds, with the pod's future
// node, while an eviction chain is under way for it; otherwise preemption follows.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	p.tryAgain(ctx, state, pod)
	node := ""
	if p.chains != nil && p.sync(state) == nil {
		node = p.chains.MakeRoom(pod, func() []string { return p.short(statuses) }, func(node string, gone []*v1.Pod) bool {
			return p.takes(ctx, state, pod, node, gone)
		})
	}
	if node == "" && p.chains != nil {
		p.chains.GiveWay(pod, func(node string) string {
			if s := statuses.Get(node); s.Plugin() == Name {
				return s.Message()
			}
			return ""
		})
	}
	switch {
	case node == "" && p.chains != nil && p.chains.TakesBack(pod):
		return framework.NewPostFilterResultWithNominatedNode(""), fwk.NewStatus(fwk.Unschedulable)
	case node == "":
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	return framework.NewPostFilterResultWithNominatedNode(node), nil
}

// short returns the nodes that lack room for the pod of a cycle, or that a rule or a reservation closes.
func (p *Plugin) short(statuses fwk.NodeToStatusReader) (list []string) {
	for _, name := range p.nodes.names {
		s := statuses.Get(name)
		if s.Code() == fwk.Unschedulable && (s.Plugin() == names.NodeResourcesFit || s.Plugin() == Name) {
			list = append(list, name)
		}
	}
	return list
}

// takes reports whether all filters would admit a pod to a node after the removal of some pods.
func (p *Plugin) takes(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string, gone []*v1.Pod) bool {
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(node)
	if err != nil {
		return false
	}
	info, state = info.Snapshot(), state.Clone()
	for _, g := range gone {
		leaves, err := framework.NewPodInfo(g)
		if err != nil || info.RemovePod(klog.FromContext(ctx), g) != nil || !p.handle.RunPreFilterExtensionRemovePod(ctx, state, pod, leaves, info).IsSuccess() {
			return false
		}
	}
	return p.handle.RunFilterPluginsWithNominatedPods(ctx, state, pod, info).IsSuccess()
}

// chainCluster is the cluster of eviction chains.
type chainCluster struct {
	pods     corelisters.PodLister
	nodes    corelisters.NodeLister
	budgets  policylisters.PodDisruptionBudgetLister
	handle   fwk.Handle
	evictor  *evict.Evictor
	appLabel string
	by       evict.Source // of evictions that make room
	next     *replacements
}

// newChainCluster takes pods and budgets from the scheduler's informers. policy is the deciding one, appLabel the label that names a pod's app.
func newChainCluster(h fwk.Handle, config *rest.Config, policy, appLabel string) (*chainCluster, error) {
	evictor, err := newEvictor(h, config, evict.MakeRoom, evict.Defaults)
	return &chainCluster{
		pods: h.SharedInformerFactory().Core().V1().Pods().Lister(), budgets: h.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister(),
		nodes: h.SharedInformerFactory().Core().V1().Nodes().Lister(), appLabel: appLabel, handle: h, evictor: evictor, next: newReplacements(h), by: evict.MakeRoom + ":" + evict.Source(policy),
	}, err
}

func newEvictor(h fwk.Handle, config *rest.Config, by evict.Source, limits evict.Limits) (*evict.Evictor, error) {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	heads, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return evict.New(evict.Clients(objects, heads, h.ClientSet()), by, limits, clock.RealClock{}), nil
}

// Pod implements [drain.Cluster].
func (c *chainCluster) Pod(namespace, name string) *v1.Pod {
	pod, err := c.pods.Pods(namespace).Get(name)
	if err != nil {
		return nil
	}
	return pod
}

// Workload implements [drain.Cluster].
func (c *chainCluster) Workload(pod *v1.Pod) []*v1.Pod {
	list, _ := c.pods.Pods(pod.Namespace).List(labels.Everything()) // of an informer's store: it does not fail
	group := podspec.Group(pod, c.appLabel)
	return slices.DeleteFunc(list, func(p *v1.Pod) bool { return podspec.Group(p, c.appLabel) != group })
}

// NotEvictable implements [drain.Cluster]. If budgets, pods or nodes cannot be read, no pod is evictable.
func (c *chainCluster) NotEvictable() func(*v1.Pod) bool {
	pods, unread := c.pods.List(labels.Everything())
	nodes, unseen := c.nodes.List(labels.Everything())
	if unread != nil || unseen != nil {
		return func(*v1.Pod) bool { return true }
	}
	budgets, others := c.budgeted(), podspec.NewOthers(pods, nodes, c.appLabel)
	return func(p *v1.Pod) bool { return budgets(p) || others.Unknown(p) != "" }
}

// budgeted returns a function that reports whether a disruption budget protects a pod; always true if budgets cannot be read.
func (c *chainCluster) budgeted() func(*v1.Pod) bool {
	list, err := c.budgets.List(labels.Everything())
	if err != nil {
		return func(*v1.Pod) bool { return true }
	}
	return drain.Budgets(list)
}

// Refusal implements [drain.Cluster].
func (c *chainCluster) Refusal(ctx context.Context, gone []*v1.Pod, places ...kube.Place) string {
	return c.next.refusal(ctx, gone, places...)
}

// Ends implements [drain.Cluster].
func (c *chainCluster) Ends(node string) bool {
	info, err := c.handle.SnapshotSharedLister().NodeInfos().Get(node)
	return err == nil && slices.ContainsFunc(info.GetPods(), func(p fwk.PodInfo) bool { return p.GetPod().DeletionTimestamp != nil })
}

// Activate implements [drain.Cluster].
func (c *chainCluster) Activate(pods ...*v1.Pod) {
	byName := make(map[string]*v1.Pod, len(pods))
	for _, pod := range pods {
		byName[pod.Namespace+"/"+pod.Name] = pod
	}
	c.handle.Activate(klog.Background(), byName)
}

// Evict implements [drain.Cluster].
func (c *chainCluster) Evict(ctx context.Context, perHour int, pod *v1.Pod) error {
	err := c.evictor.EvictAs(ctx, c.by, perHour, pod)
	if errors.Is(err, evict.ErrGone) {
		return nil
	}
	return err
}

// Evicted implements [drain.Cluster].
func (c *chainCluster) Evicted(ctx context.Context) (int, error) { return c.evictor.Count(ctx, c.by) }
