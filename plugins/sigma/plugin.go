package sigma

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/sigma-scheduler/sigma/plugins/apis/config"
	"github.com/sigma-scheduler/sigma/plugins/apis/config/validation"
	"github.com/sigma-scheduler/sigma/plugins/drain"
	"github.com/sigma-scheduler/sigma/plugins/engine"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// Name of the plugin in a scheduler's configuration.
const Name = "Sigma"

// Plugin is Sigma in one profile.
type Plugin struct {
	engine  *engine.Engine
	handle  fwk.Handle
	binder  fwk.BindPlugin // upstream's
	mapping string
	has     engine.Kinds  // in the cluster: changes of rules and plans wake pods
	chains  *drain.Chains // nil = not connected: no pod moves

	nodes  nodes
	waking sync.Map // time at which a rule gives way, by UID of a waiting pod

	top     func() int     // nodes to rank
	cycle   fwk.CycleState // of the last sync
	current *verdictState  // of that cycle; nil = not yet
}

// argsPath is the path of the arguments in a scheduler's configuration.
var argsPath = field.NewPath("pluginConfig").Key(Name).Child("args")

var (
	_ fwk.PreFilterPlugin     = &Plugin{}
	_ fwk.FilterPlugin        = &Plugin{}
	_ fwk.PreFilterExtensions = &Plugin{}
	_ fwk.PostFilterPlugin    = &Plugin{}
	_ fwk.PreScorePlugin      = &Plugin{}
	_ fwk.ScorePlugin         = &Plugin{}
	_ fwk.ReservePlugin       = &Plugin{}
	_ fwk.BindPlugin          = &Plugin{}
	_ fwk.EnqueueExtensions   = &Plugin{}
)

// peers are the engines of schedulers by their profiles' shared object: the informers.
var peers sync.Map

func peersOf(ctx context.Context, h fwk.Handle) *engine.Peers {
	shared := h.SharedInformerFactory()
	is, _ := peers.LoadOrStore(shared, &engine.Peers{})
	context.AfterFunc(ctx, func() { peers.Delete(shared) })
	return is.(*engine.Peers)
}

// New is the plugin's factory.
func New(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	p, err := build(ctx, args, h, peersOf(ctx, h))
	if err != nil {
		return nil, err
	}
	if err := p.connect(ctx, args.(*config.SigmaArgs)); err != nil {
		return nil, errors.Join(err, p.engine.Close())
	}
	return p, nil
}

// build makes a plugin that is not connected to a cluster.
func build(ctx context.Context, args runtime.Object, h fwk.Handle, with *engine.Peers) (*Plugin, error) {
	a, ok := args.(*config.SigmaArgs)
	if !ok {
		return nil, fmt.Errorf("%s: want SigmaArgs, got %T", argsPath, args)
	}
	if err := validation.ValidateSigmaArgs(argsPath, a); err != nil {
		return nil, err
	}
	binder, err := defaultbinder.New(ctx, nil, h)
	if err != nil {
		return nil, err
	}
	var e *engine.Engine
	e, err = engine.New(engine.Options{
		Profile: profileOf(h), PolicyName: a.PolicyName, CanaryName: a.CanaryPolicyName, AppLabel: a.AppLabel,
		Fleet: a.Fleet, Prices: a.Prices, DecisionLog: a.DecisionLog, DecisionLogBytes: a.DecisionLogBytes, DecisionLogFiles: int(a.DecisionLogFiles), Deadline: a.Deadline.Duration, ForecastAge: a.ForecastMaxAge.Duration,
		Recorder: h.EventRecorder(), Repairs: true, MaxGrace: a.MaxGracePeriod.Duration, Peers: with,
		Leads: func() bool { return drain.Leads(legacyregistry.DefaultGatherer, e.Decides) },
	})
	if err != nil { // it begins with the argument's name
		return nil, fmt.Errorf("%s.%w", argsPath, err)
	}
	p := &Plugin{engine: e, handle: h, binder: binder.(fwk.BindPlugin), mapping: a.Mapping}
	p.top = sync.OnceValue(func() int { // the profile is not complete yet
		profile, ok := h.(framework.Framework)
		if !ok {
			return int(fwk.MaxScore)
		}
		return mostRanked(a.Mapping, profile.ListPlugins().Score.Enabled, h.Extenders())
	})
	context.AfterFunc(ctx, func() {
		if err := e.Close(); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot close the decision log")
		}
	})
	return p, nil
}

func profileOf(h fwk.Handle) string {
	if named, ok := h.(interface{ ProfileName() string }); ok {
		return named.ProfileName()
	}
	return Name
}

// connect follows the cluster, and lets pods move.
func (p *Plugin) connect(ctx context.Context, a *config.SigmaArgs) (err error) {
	h, e := p.handle, p.engine
	if p.has, err = e.Watch(ctx, h.KubeConfig()); err != nil {
		return err
	}
	// Informers of our own: the scheduler waits for all of its informers, and without
	// the right to read a kind it would wait for ever.
	declared := informers.NewSharedInformerFactoryWithOptions(h.ClientSet(), 0, informers.WithTransform(podspec.Slim))
	e.Follow(ctx, declared)
	e.CompareWith(ctx, h.SharedInformerFactory(), nil)
	cluster, err := newChainCluster(h, h.KubeConfig(), a.PolicyName, a.AppLabel)
	if err != nil {
		return err
	}
	p.chains = drain.NewChains(ctx, e, cluster, time.Now)
	if err := p.rebalance(ctx, a, profileOf(h)); err != nil {
		return err
	}
	_, err = h.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { p.bound(nil, o) },
		UpdateFunc: p.bound,
		DeleteFunc: p.gone,
	})
	if err != nil {
		return err
	}
	_, err = h.SharedInformerFactory().Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: p.nodeChanged,
		DeleteFunc: func(o any) { p.nodeChanged(o, nil) },
	})
	return err
}

// nodeChanged passes on nodes that change and, with after nil, removed nodes.
func (p *Plugin) nodeChanged(before, after any) {
	old, now, err := util.As[*v1.Node](last(before), after)
	if err == nil && old != nil {
		p.engine.NodeChanged(old, now)
	}
}

// last returns the last known state of a deleted object.
func last(object any) any {
	if final, ok := object.(cache.DeletedFinalStateUnknown); ok {
		return final.Obj
	}
	return object
}

// bound passes on pods that get a node, from any scheduler.
func (p *Plugin) bound(before, after any) {
	old, now, err := util.As[*v1.Pod](before, after)
	if err == nil && now.Spec.NodeName != "" && (old == nil || old.Spec.NodeName == "") {
		p.engine.Bound(now)
		p.left(now)
	}
}

func (p *Plugin) gone(object any) {
	if pod, ok := last(object).(*v1.Pod); ok {
		p.engine.Deleted(pod)
		p.left(pod)
	}
}

// left informs the chains of a pod that no longer waits.
func (p *Plugin) left(pod *v1.Pod) {
	if p.chains != nil {
		p.chains.Gone(pod)
	}
}

// Name implements [fwk.Plugin].
func (p *Plugin) Name() string { return Name }

// sync passes the changed nodes to the engine, once a cycle: the snapshot does not
// change within one.
func (p *Plugin) sync(state fwk.CycleState) error {
	if p.cycle == state {
		return nil
	}
	list, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return err
	}
	p.engine.Sync(func(all bool, set func(engine.Node), gone func(string)) {
		p.nodes.visit(list, all, set, gone)
	})
	p.cycle, p.current = state, nil
	return nil
}
