package oracle

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// filters are those of kube-scheduler's default profile, over its own cache.
type filters struct {
	ctx       context.Context
	close     func()
	scheduler *scheduler.Scheduler
	framework framework.Framework
	snapshot  *internalcache.Snapshot
	nodes     []*v1.Node
}

// newFilters has the nodes of a cluster and what runs on them. It is to be closed.
func newFilters(c *cluster) *filters {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	client := fake.NewClientset()
	factory := stillInformers(client, c.others(), &v1.Namespace{}, &v1.PersistentVolume{}, &v1.PersistentVolumeClaim{},
		&storagev1.StorageClass{}, &storagev1.CSINode{}, &resourcev1.ResourceClaim{}, &resourcev1.DeviceClass{})
	s, err := scheduler.New(ctx, client, factory, nil, func(string) events.EventRecorderLogger { return nil })
	if err != nil {
		panic(err)
	}
	f := &filters{ctx: ctx, close: cancel, scheduler: s, framework: s.Profiles[v1.DefaultSchedulerName], nodes: c.Nodes}
	f.snapshot = f.framework.SnapshotSharedLister().(*internalcache.Snapshot)
	for _, n := range c.Nodes {
		s.Cache.AddNode(klog.FromContext(ctx), n)
	}
	for _, p := range c.Pods {
		if p.Spec.NodeName != "" {
			f.add(p)
		}
	}
	return f
}

// add and remove put a pod on its node, and take it away.
func (f *filters) add(p *v1.Pod) {
	if err := f.scheduler.Cache.AddPod(klog.FromContext(f.ctx), p); err != nil {
		panic(fmt.Sprintf("pod %s: %v", nameOf(p), err))
	}
}

func (f *filters) remove(p *v1.Pod) {
	if err := f.scheduler.Cache.RemovePod(klog.FromContext(f.ctx), p); err != nil {
		panic(fmt.Sprintf("pod %s: %v", nameOf(p), err))
	}
}

// A refusal says which filter keeps a pod off a node, and why.
type refusal struct{ plugin, reason string }

// ask returns the refusals of a pod that has no node, by node; a node that all filters allow has none.
func (f *filters) ask(p *v1.Pod) map[string]refusal {
	refused := map[string]refusal{}
	if err := f.scheduler.Cache.UpdateSnapshot(klog.FromContext(f.ctx), f.snapshot); err != nil {
		panic(err)
	}
	p = unplaced(p)
	state := framework.NewCycleState()
	narrowed, status, by := f.framework.RunPreFilterPlugins(f.ctx, state, p)
	for _, n := range f.nodes {
		switch {
		case !status.IsSuccess():
			refused[n.Name] = refusalOf(p, status)
		case !narrowed.AllNodes() && !narrowed.NodeNames.Has(n.Name):
			refused[n.Name] = refusal{strings.Join(sets.List(by), ", "), "not among the nodes of PreFilter"}
		default:
			info, err := f.snapshot.NodeInfos().Get(n.Name)
			if err != nil {
				panic(err)
			}
			if status := f.framework.RunFilterPlugins(f.ctx, state, p, info); !status.IsSuccess() {
				refused[n.Name] = refusalOf(p, status)
			}
		}
	}
	return refused
}

// refusalOf panics where a filter failed: the cluster lacks an object then.
func refusalOf(p *v1.Pod, s *fwk.Status) refusal {
	if !s.IsRejected() {
		panic(fmt.Sprintf("pod %s: %s: %v", nameOf(p), s.Plugin(), s.AsError()))
	}
	reason := ""
	if reasons := s.Reasons(); len(reasons) > 0 {
		reason = quoted.ReplaceAllString(reasons[0], "…")
	}
	return refusal{s.Plugin(), reason}
}

// quoted are the parts of a reason that name objects.
var quoted = regexp.MustCompile(`\{.*\}|"[^"]*"|pvc-\S+`)

// unplaced is the pod that a controller would make in place of one.
func unplaced(p *v1.Pod) *v1.Pod {
	if p.Spec.NodeName == "" {
		return p
	}
	p = p.DeepCopy()
	p.Spec.NodeName, p.Status = "", v1.PodStatus{Phase: v1.PodPending}
	return p
}
