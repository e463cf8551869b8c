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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/sigma-scheduler/sigma/plugins/apis/config/scheme"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// replacements runs the filters of a profile for pods that do not exist yet, outside of scheduling cycles. It has its own
// framework: the plugins of the profile read a snapshot that changes with each cycle. It has the upstream plugins that
// the profile enables, with the profile's arguments.
type replacements struct {
	pods   corelisters.PodLister
	nodes  corelisters.NodeLister
	handle fwk.Handle

	mu      sync.Mutex
	filters framework.Framework // nil = not built yet
	view    view
}

// A view is the snapshot of the current query.
type view struct{ *internalcache.Snapshot }

func newReplacements(h fwk.Handle) *replacements {
	core := h.SharedInformerFactory().Core().V1()
	return &replacements{pods: core.Pods().Lister(), nodes: core.Nodes().Lister(), handle: h}
}

// refusal returns why the filters refuse the first of some places, once the pods in gone have left their nodes; "" if they
// admit all. For a pod that has a node, they check a replacement of it.
func (r *replacements) refusal(ctx context.Context, gone []*v1.Pod, places ...kube.Place) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.build(ctx); err != nil {
		return "the scheduler's filters cannot be run: " + err.Error()
	}
	if err := r.look(gone); err != nil {
		return err.Error()
	}
	for _, p := range places {
		name, pod := p.Pod.Namespace+"/"+p.Pod.Name, p.Pod.DeepCopy()
		if pod.Spec.NodeName != "" {
			name = "a replacement of " + name
			pod.Spec.NodeName, pod.Status = "", v1.PodStatus{Phase: v1.PodPending}
		}
		if why := r.ask(ctx, pod, p.Node); why != "" {
			return fmt.Sprintf("%s does not fit on node %s: %s", name, p.Node, why)
		}
	}
	return ""
}

// ask runs the filters for a pod and a node.
func (r *replacements) ask(ctx context.Context, pod *v1.Pod, node string) string {
	info, err := r.view.Snapshot.NodeInfos().Get(node)
	if err != nil {
		return "it is gone"
	}
	state := framework.NewCycleState()
	nodes, status, by := r.filters.RunPreFilterPlugins(ctx, state, pod)
	switch {
	case !status.IsSuccess():
	case !nodes.AllNodes() && !nodes.NodeNames.Has(node):
		return strings.Join(sets.List(by), ", ") + ": not among the nodes of the pod"
	default:
		status = r.filters.RunFilterPlugins(ctx, state, pod, info)
	}
	if status.IsSuccess() {
		return ""
	}
	return fmt.Sprintf("%s: %s", status.Plugin(), status.Message())
}

// build makes the framework, at the first query: the profile is complete then.
func (r *replacements) build(ctx context.Context) error {
	if r.filters != nil {
		return nil
	}
	profile, ok := r.handle.(framework.Framework)
	if !ok {
		return errors.New("the profile does not list its plugins")
	}
	arguments, err := scheme.PluginConfig(profile.ProfileName())
	if err != nil {
		return err
	}
	if arguments == nil { // the profile has no configuration file
		defaults, err := latest.Default()
		if err != nil {
			return err
		}
		arguments = defaults.Profiles[0].PluginConfig
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
		SchedulerName: profile.ProfileName(), PluginConfig: arguments,
		Plugins: &schedulerconfig.Plugins{ // a framework without a queue and a binding is an error
			PreFilter: upstream(enabled.PreFilter), Filter: upstream(enabled.Filter), QueueSort: one(names.PrioritySort), Bind: one(names.DefaultBinder),
		},
	}, frameworkruntime.WithClientSet(r.handle.ClientSet()), frameworkruntime.WithInformerFactory(r.handle.SharedInformerFactory()),
		frameworkruntime.WithSharedDRAManager(r.handle.SharedDRAManager()), frameworkruntime.WithSharedCSIManager(r.handle.SharedCSIManager()),
		frameworkruntime.WithSnapshotSharedLister(&r.view))
	return err
}

// look takes the present cluster without some pods. A pod on a node that does not exist is on no node.
func (r *replacements) look(gone []*v1.Pod) error {
	pods, err := r.pods.List(labels.Everything())
	if err != nil {
		return err
	}
	nodes, err := r.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	there, leaves := map[string]bool{}, map[types.UID]bool{}
	for _, n := range nodes {
		there[n.Name] = true
	}
	for _, p := range gone {
		leaves[p.UID] = true
	}
	r.view.Snapshot = internalcache.NewSnapshot(slices.DeleteFunc(pods, func(p *v1.Pod) bool {
		return !there[p.Spec.NodeName] || podspec.Ended(p) || leaves[p.UID]
	}), nodes)
	return nil
}
