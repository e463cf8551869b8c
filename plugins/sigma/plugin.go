package sigma

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/sigma-scheduler/sigma/plugins/apis/config"
	"github.com/sigma-scheduler/sigma/plugins/apis/config/validation"
	"github.com/sigma-scheduler/sigma/plugins/engine"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// Name of the plugin in a scheduler's configuration.
const Name = "Sigma"

// Plugin is Sigma in one profile.
type Plugin struct {
	engine  *engine.Engine
	handle  framework.Handle
	mapping string
	rules   bool // the cluster has PlacementRules: they wake pods

	// What the engine was told of last. The snapshot's list has the same nodes in
	// the same order until nodes come or go.
	list        []fwk.NodeInfo
	names       []string
	generations []int64
	at          map[*framework.NodeInfo]int32 // place in the list
	named       map[string]int32              // the same by name; nil until it is needed
	changed     []int

	// Of this cycle: which places passed the filters, and as what.
	passed []bool
	given  []*framework.NodeInfo

	cycle   fwk.CycleState // in which that was
	current *verdictState  // of that cycle, nil = not yet

	mu    sync.Mutex
	again map[string]bool // nodes to be looked at although nothing changed there
}

// argsPath is where the arguments stand in a scheduler's configuration.
var argsPath = field.NewPath("pluginConfig").Key(Name).Child("args")

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
		return nil, fmt.Errorf("%s: want SigmaArgs, got %T", argsPath, args)
	}
	if err := validation.ValidateSigmaArgs(argsPath, a); err != nil {
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
	if err != nil { // it begins with the argument's name
		return nil, fmt.Errorf("%s.%w", argsPath, err)
	}
	p := &Plugin{engine: e, handle: h, mapping: a.Mapping, again: map[string]bool{}}
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
	// Not by the scheduler's informers: it waits for all of those, and without the
	// right to read a kind it would wait for ever.
	declared := informers.NewSharedInformerFactoryWithOptions(h.ClientSet(), 0, informers.WithTransform(podspec.Slim))
	e.Follow(ctx, declared)
	declared.Start(ctx.Done())
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
		p.engine.Deleted(pod)
	}
}

// Name implements [framework.Plugin].
func (p *Plugin) Name() string { return Name }

// sync tells the engine of the nodes whose generation changed. The snapshot is one
// all through a cycle: once is enough.
func (p *Plugin) sync(state fwk.CycleState) error {
	if p.cycle == state {
		return nil
	}
	list, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return err
	}
	p.engine.Sync(func(all bool, set func(engine.Node), gone func(string)) {
		p.lookAgain()
		if all || !p.compare(list) {
			p.recount(list, all, gone)
			p.compare(list)
		}
		for _, i := range p.changed {
			p.generations[i] = list[i].GetGeneration()
			set(nodeOf(list[i]))
		}
	})
	p.cycle, p.current = state, nil
	return nil
}

// compare finds the nodes of a list that changed, and reports whether it is of the
// same nodes in the same order as the last one.
func (p *Plugin) compare(list []fwk.NodeInfo) bool {
	p.changed = p.changed[:0]
	if len(list) != len(p.list) {
		return false
	}
	for i, info := range list {
		if info != p.list[i] {
			return false
		}
		if info.GetGeneration() != p.generations[i] {
			p.changed = append(p.changed, i)
		}
	}
	return true
}

// recount matches what the engine was told of with another list of nodes.
func (p *Plugin) recount(list []fwk.NodeInfo, all bool, gone func(string)) {
	before := make(map[string]int64, len(p.names))
	for i, name := range p.names {
		before[name] = p.generations[i]
	}
	p.list, p.names, p.generations = slices.Clone(list), make([]string, len(list)), make([]int64, len(list))
	p.at, p.named = make(map[*framework.NodeInfo]int32, len(list)), nil
	p.passed, p.given = make([]bool, len(list)), make([]*framework.NodeInfo, len(list))
	for i, info := range list {
		name := info.Node().Name
		p.names[i], p.generations[i] = name, never
		if generation, ok := before[name]; ok && !all {
			p.generations[i] = generation
		}
		delete(before, name)
		p.at[concrete(info)] = int32(i)
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		gone(name)
	}
}

// concrete is the node of a snapshot as a key that is quickly found.
func concrete(info fwk.NodeInfo) *framework.NodeInfo {
	n, _ := info.(*framework.NodeInfo)
	return n
}

// never is a generation that no node has.
const never = -1

// lookAgain has the nodes looked at on which a decision came to nothing: a binding
// that failed, as far as we know, may have been made all the same, and then nothing
// changes there.
func (p *Plugin) lookAgain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.again) == 0 {
		return
	}
	for i, name := range p.names {
		if p.again[name] {
			p.generations[i] = never
		}
	}
	clear(p.again)
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
	scores  map[*framework.NodeInfo]int64 // of the nodes that are not at 0
}

// Clone implements [fwk.StateData]. The state does not change once it is written.
func (s *verdictState) Clone() fwk.StateData { return s }

// PreScore asks the policy about all nodes at once.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	if err := p.sync(state); err != nil {
		return fwk.AsStatus(err)
	}
	p.mark(nodes)
	v := p.engine.RankAmong(ctx, pod, p.names, p.passed)
	s := &verdictState{verdict: v}
	state.Write(stateKey, s)
	if !v.Decides || len(v.Ranked) == 0 {
		return fwk.NewStatus(fwk.Skip) // the other scores decide
	}
	points := byRank
	if p.mapping == config.MappingLinear {
		points = linear
	}
	s.scores = make(map[*framework.NodeInfo]int64, len(v.Ranked))
	for i, score := range points(v.Ranked) {
		s.scores[p.given[v.Ranked[i].Place]] = score
	}
	p.current = s
	return nil
}

// mark marks the nodes that passed the filters in the list of all.
func (p *Plugin) mark(nodes []fwk.NodeInfo) {
	clear(p.passed)
	for _, info := range nodes {
		n := concrete(info)
		i, ok := p.at[n]
		if !ok { // an extender that is sent whole nodes sends others back
			i, ok = p.place(info.Node().Name)
		}
		if ok {
			p.passed[i], p.given[i] = true, n
		}
	}
}

// place is the place of a node in the list.
func (p *Plugin) place(name string) (int32, bool) {
	if p.named == nil {
		p.named = make(map[string]int32, len(p.names))
		for i, known := range p.names {
			p.named[known] = int32(i)
		}
	}
	i, ok := p.named[name]
	return i, ok
}

// byRank gives the best node 100, the next 99 and so on: a tie, which the
// scheduler would break at random, there is none among them.
func byRank(ranked []engine.Ranked) []int64 {
	scores := make([]int64, len(ranked))
	for i := range ranked {
		scores[i] = framework.MaxNodeScore - int64(i)
	}
	return scores
}

// linear spreads the scores over 0 to 100: advice that other scores can outweigh.
func linear(ranked []engine.Ranked) []int64 {
	most, least := ranked[0].Score, ranked[len(ranked)-1].Score
	scores := make([]int64, len(ranked))
	for i, r := range ranked {
		scores[i] = framework.MaxNodeScore
		if width := most/2 - least/2; width > 0 { // halves: the difference may be too large
			scores[i] = int64(float64(framework.MaxNodeScore)*((r.Score/2-least/2)/width) + .5)
		}
	}
	return scores
}

// Score implements [framework.ScorePlugin].
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	s := p.current
	if s == nil || p.cycle != state { // the quick way is for the scheduler, with one cycle at a time
		data, err := state.Read(stateKey)
		if err != nil {
			return 0, nil // an error would reject the pod
		}
		s = data.(*verdictState)
	}
	return s.scores[concrete(info)], nil
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
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	p.engine.BindFailed(pod)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again[node] = true
}
