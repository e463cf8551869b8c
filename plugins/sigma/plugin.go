package sigma

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/sigma-scheduler/sigma/plugins/apis/config"
	"github.com/sigma-scheduler/sigma/plugins/apis/config/validation"
	"github.com/sigma-scheduler/sigma/plugins/engine"
)

// Name of the plugin in a scheduler's configuration.
const Name = "Sigma"

// Plugin is Sigma in one profile.
type Plugin struct {
	engine  *engine.Engine
	handle  framework.Handle
	mapping string
	rules   bool // the cluster has PlacementRules: they wake pods
	// nodes are what the engine was told of last, by their place in the snapshot's
	// list, which is the same until nodes come or go.
	nodes []seen
}

type seen struct {
	info       fwk.NodeInfo
	name       string
	generation int64
}

var (
	_ framework.PreFilterPlugin     = &Plugin{}
	_ framework.FilterPlugin        = &Plugin{}
	_ framework.PreFilterExtensions = &Plugin{}
	_ framework.PreScorePlugin      = &Plugin{}
	_ framework.ScorePlugin         = &Plugin{}
	_ framework.ReservePlugin       = &Plugin{}
	_ framework.EnqueueExtensions   = &Plugin{}
)

// New is the plugin's factory.
func New(ctx context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
	a, ok := args.(*config.SigmaArgs)
	if !ok {
		return nil, fmt.Errorf("want args of type SigmaArgs, got %T", args)
	}
	if err := validation.ValidateSigmaArgs(nil, a); err != nil {
		return nil, err
	}
	profile := Name
	if named, ok := h.(interface{ ProfileName() string }); ok {
		profile = named.ProfileName()
	}
	e, err := engine.New(engine.Options{
		Profile: profile, PolicyName: a.PolicyName, CanaryName: a.CanaryPolicyName, AppLabel: a.AppLabel,
		Fleet: a.Fleet, DecisionLog: a.DecisionLog, Deadline: a.Deadline.Duration, ForecastAge: a.ForecastMaxAge.Duration,
		Top: int(framework.MaxNodeScore), Recorder: h.EventRecorder(),
	})
	if err != nil {
		return nil, err
	}
	p := &Plugin{engine: e, handle: h, mapping: a.Mapping}
	context.AfterFunc(ctx, func() {
		if err := e.Close(); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot close the decision log")
		}
	})
	if h.KubeConfig() == nil { // a test without a cluster
		return p, nil
	}
	if p.rules, err = e.Watch(ctx, h.KubeConfig()); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	e.Follow(ctx, h.SharedInformerFactory())
	_, err = h.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { p.bound(nil, o) },
		UpdateFunc: p.bound,
		DeleteFunc: p.gone,
	})
	return p, err
}

// bound looks at pods that get a node, whoever gave it.
func (p *Plugin) bound(before, after any) {
	old, now, err := util.As[*v1.Pod](before, after)
	if err == nil && now.Spec.NodeName != "" && (old == nil || old.Spec.NodeName == "") {
		p.engine.Bound(now)
	}
}

func (p *Plugin) gone(object any) {
	if final, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = final.Obj
	}
	if pod, ok := object.(*v1.Pod); ok {
		p.engine.Gone(pod)
	}
}

// Name implements [framework.Plugin].
func (p *Plugin) Name() string { return Name }

// sync tells the engine of the nodes whose generation changed.
func (p *Plugin) sync() error {
	list, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return err
	}
	p.engine.Sync(func(all bool, set func(engine.Node), gone func(string)) {
		same := !all && len(list) == len(p.nodes)
		for i := 0; same && i < len(list); i++ {
			same = list[i] == p.nodes[i].info
		}
		if !same {
			p.recount(list, all, gone)
		}
		for i, info := range list {
			if generation := info.GetGeneration(); p.nodes[i].generation != generation {
				p.nodes[i].generation = generation
				set(nodeOf(info))
			}
		}
	})
	return nil
}

// recount matches what the engine was told of with a list in which nodes came,
// went or moved.
func (p *Plugin) recount(list []fwk.NodeInfo, all bool, gone func(string)) {
	before := make(map[string]seen, len(p.nodes))
	for _, n := range p.nodes {
		before[n.name] = n
	}
	p.nodes = p.nodes[:0]
	for _, info := range list {
		n := seen{info: info, name: info.Node().Name, generation: -1}
		if old, ok := before[n.name]; ok && !all && old.info == info {
			n.generation = old.generation
		}
		delete(before, n.name)
		p.nodes = append(p.nodes, n)
	}
	for name := range before {
		gone(name)
	}
}

func nodeOf(info fwk.NodeInfo) engine.Node {
	n := engine.Node{Object: info.Node()}
	for _, pod := range info.GetPods() {
		n.Pods = append(n.Pods, pod.GetPod())
	}
	return n
}

const stateKey = fwk.StateKey(Name)

// verdictState carries a cycle's verdict from PreScore to Score and Reserve.
type verdictState struct {
	verdict *engine.Verdict
	scores  map[string]int64
}

// Clone implements [fwk.StateData]. The state does not change once it is written.
func (s *verdictState) Clone() fwk.StateData { return s }

// PreScore asks the policy about all nodes at once.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	if err := p.sync(); err != nil {
		return fwk.AsStatus(err)
	}
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Node().Name
	}
	v := p.engine.Rank(ctx, pod, names)
	s := &verdictState{verdict: v}
	state.Write(stateKey, s)
	if !v.Decides || len(v.Ranked) == 0 {
		return fwk.NewStatus(fwk.Skip) // the other scores decide
	}
	if p.mapping == config.MappingLinear {
		s.scores = linear(v.Ranked)
	} else {
		s.scores = byRank(v.Ranked)
	}
	return nil
}

// byRank gives the best node 100, the next 99 and so on: a tie, which the
// scheduler would break at random, there is none among them.
func byRank(ranked []engine.Ranked) map[string]int64 {
	scores := make(map[string]int64, len(ranked))
	for i, r := range ranked {
		scores[r.Node] = framework.MaxNodeScore - int64(i)
	}
	return scores
}

// linear spreads the scores over 0 to 100: advice that other scores can outweigh.
func linear(ranked []engine.Ranked) map[string]int64 {
	most, least := ranked[0].Score, ranked[len(ranked)-1].Score
	scores := make(map[string]int64, len(ranked))
	for _, r := range ranked {
		score := framework.MaxNodeScore
		if most > least {
			score = int64(float64(framework.MaxNodeScore)*((r.Score-least)/(most-least)) + .5)
		}
		scores[r.Node] = score
	}
	return scores
}

// Score implements [framework.ScorePlugin].
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := state.Read(stateKey)
	if err != nil {
		return 0, nil // an error would reject the pod
	}
	return data.(*verdictState).scores[info.Node().Name], nil
}

// ScoreExtensions implements [framework.ScorePlugin]: there is nothing to normalise.
func (p *Plugin) ScoreExtensions() framework.ScoreExtensions { return nil }

// Reserve notes where the pod goes.
func (p *Plugin) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	var v *engine.Verdict
	if data, err := state.Read(stateKey); err == nil {
		v = data.(*verdictState).verdict
	}
	p.engine.Reserve(pod, node, v)
	return nil
}

// Unreserve notes that the pod did not get there.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	p.engine.Undo(pod)
}
