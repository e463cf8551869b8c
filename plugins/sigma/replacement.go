package sigma

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// replacements runs the filters of a profile for pods that do not exist yet, outside of scheduling cycles. It has its own
// framework: the plugins of the profile read a snapshot that changes with each cycle. It has the upstream plugins that
// the profile enables, with their default arguments.
type replacements struct {
	pods   corelisters.PodLister
	nodes  corelisters.NodeLister
	handle fwk.Handle

	mu      sync.Mutex
	filters framework.Framework // nil = not built yet
	view    view
}

// A view is the snapshot of the current question.
type view struct{ *internalcache.Snapshot }

func newReplacements(h fwk.Handle) *replacements {
	core := h.SharedInformerFactory().Core().V1()
	return &replacements{pods: core.Pods().Lister(), nodes: core.Nodes().Lister(), handle: h}
}

// refusal returns why the filters refuse a new pod in place of another one on a node, once the pod and those in gone
// have left their nodes; "" = they allow it.
func (r *replacements) refusal(ctx context.Context, pod *v1.Pod, node string, gone ...*v1.Pod) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.build(ctx); err != nil {
		return "the scheduler's filters cannot be run: " + err.Error()
	}
	if err := r.look(append(slices.Clip(gone), pod)); err != nil {
		return err.Error()
	}
	info, err := r.view.Snapshot.NodeInfos().Get(node)
	if err != nil || info.Node() == nil {
		return "node " + node + " is gone"
	}
	next := pod.DeepCopy()
	next.Spec.NodeName, next.Status = "", v1.PodStatus{Phase: v1.PodPending}
	state := framework.NewCycleState()
	nodes, status, by := r.filters.RunPreFilterPlugins(ctx, state, next)
	switch {
	case !status.IsSuccess():
	case !nodes.AllNodes() && !nodes.NodeNames.Has(node):
		return fmt.Sprintf("%s: not on node %s", strings.Join(by.UnsortedList(), ", "), node)
	default:
		status = r.filters.RunFilterPlugins(ctx, state, next, info)
	}
	if status.IsSuccess() {
		return ""
	}
	return fmt.Sprintf("%s: %s", status.Plugin(), status.Message())
}

// build makes the framework, at the first question: the profile is complete then.
func (r *replacements) build(ctx context.Context) error {
	if r.filters != nil {
		return nil
	}
	profile, ok := r.handle.(framework.Framework)
	if !ok {
		return errors.New("the profile does not list its plugins")
	}
	defaults, err := latest.Default()
	if err != nil {
		return err
	}
	registry, enabled := plugins.NewInTreeRegistry(), profile.ListPlugins()
	upstream := func(set schedulerconfig.PluginSet) schedulerconfig.PluginSet {
		return schedulerconfig.PluginSet{Enabled: slices.DeleteFunc(slices.Clone(set.Enabled), func(p schedulerconfig.Plugin) bool { return registry[p.Name] == nil })}
	}
	one := func(name string) schedulerconfig.PluginSet {
		return schedulerconfig.PluginSet{Enabled: []schedulerconfig.Plugin{{Name: name}}}
	}
	r.view.Snapshot = internalcache.NewEmptySnapshot()
	r.filters, err = frameworkruntime.NewFramework(ctx, registry, &schedulerconfig.KubeSchedulerProfile{
		SchedulerName: profile.ProfileName(), PluginConfig: defaults.Profiles[0].PluginConfig,
		Plugins: &schedulerconfig.Plugins{ // a framework without a queue and a binding is an error
			PreFilter: upstream(enabled.PreFilter), Filter: upstream(enabled.Filter), QueueSort: one(names.PrioritySort), Bind: one(names.DefaultBinder),
		},
	}, frameworkruntime.WithClientSet(r.handle.ClientSet()), frameworkruntime.WithInformerFactory(r.handle.SharedInformerFactory()),
		frameworkruntime.WithSharedDRAManager(r.handle.SharedDRAManager()), frameworkruntime.WithSharedCSIManager(r.handle.SharedCSIManager()),
		frameworkruntime.WithSnapshotSharedLister(&r.view))
	return err
}

// look takes the cluster as it is without some pods.
func (r *replacements) look(gone []*v1.Pod) error {
	pods, err := r.pods.List(labels.Everything())
	if err != nil {
		return err
	}
	nodes, err := r.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	leaves := func(p *v1.Pod) bool {
		return p.Spec.NodeName == "" || podspec.Ended(p) || slices.ContainsFunc(gone, func(g *v1.Pod) bool { return g.UID == p.UID })
	}
	r.view.Snapshot = internalcache.NewSnapshot(slices.DeleteFunc(pods, leaves), nodes)
	return nil
}
