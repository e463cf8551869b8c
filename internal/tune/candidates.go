package tune

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/export"
	"github.com/sigma-scheduler/sigma/internal/train"
)

// A Target is the program that will run the policy.
type Target string

// The targets.
const (
	Live          Target = "live"               // Sigma's scheduler or extender
	Offline       Target = "offline"            // a replay, which also has the clock
	KubeScheduler Target = export.KubeScheduler // a profile of upstream's scheduler
	EKS           Target = export.EKS           // the strategy and weights of the managed cluster
	AKS           Target = export.AKS
)

// Targets lists the targets.
func Targets() []string {
	return []string{string(Live), string(Offline), string(KubeScheduler), string(EKS), string(AKS)}
}

// runsFiles reports whether the target runs policy files.
func (t Target) runsFiles() bool { return t == Live || t == Offline }

// Installed is the policy in force unless another is given: the one of the manifests, or upstream's rule
// that packs.
func (t Target) Installed() string {
	if t.runsFiles() {
		return "learned"
	}
	return "mostallocated"
}

// The kinds of candidates.
const (
	builtIn  = "rule"
	settings = "rule with settings"
	inForce  = "in force"
	shipped  = "shipped"
	trained  = "trained"
)

// A candidate is a policy that may be chosen.
type candidate struct {
	name    string
	kind    string
	policy  binpack.Policy
	object  *policy.Object // nil = built in
	prefers bool           // count the preferences that its items give up
}

// mayLack reports whether the comparison is complete without a candidate.
func (c *candidate) mayLack() bool { return c.kind != inForce && !c.prefers }

// forGPUs are the rules that look at devices alone.
var forGPUs = []string{"bestfit-fgd", "dotproduct-min", "gpupacking", "gpuclustering"}

// spreading are rules that ignore the utilisation of a machine. An open fleet always
// offers them an empty machine, which no autoscaler would have started for them.
var spreading = []string{"leastallocated", "balancedallocation"}

// leavesOut reports a rule that an instance has no use for.
func leavesOut(name string, inst *binpack.Instance) bool {
	return slices.Contains(forGPUs, name) && !devices(inst) || slices.Contains(spreading, name) && inst.Fleet == binpack.Open
}

// rules are the candidates that need no training.
func rules(target Target, inst *binpack.Instance, seed uint64) ([]candidate, error) {
	var list []candidate
	names := rule.SettableNames()
	switch target {
	case KubeScheduler, EKS, AKS:
		names = export.Rules(string(target))
	default:
		slices.SortStableFunc(names, func(a, b string) int { return first(a) - first(b) })
	}
	for _, name := range names {
		if leavesOut(name, inst) {
			continue
		}
		p, err := rule.ByName(name, rule.Options{Seed: seed, TiesByPosition: target.runsFiles()})
		if err != nil {
			return nil, err
		}
		list = append(list, candidate{name: name, kind: builtIn, policy: p})
	}
	for _, s := range shapes(target, inst) {
		object := ruleObject(s)
		p, err := target.policy(object, seed)
		if err != nil {
			return nil, err
		}
		list = append(list, candidate{name: s.String(), kind: settings, policy: p, object: object})
	}
	return list, nil
}

// ruleObject is a file that is a rule with settings.
func ruleObject(s rule.Settings) *policy.Object {
	o := &policy.Object{APIVersion: policy.APIVersion, Kind: policy.ObjectKind, Metadata: policy.Metadata{Name: "rule"}}
	o.Spec = policy.Spec{FeatureVersion: policy.FeatureVersion, Model: policy.RuleModel, Knowledge: binpack.K0.String(), Rule: &s, Mode: policy.DefaultMode}
	return o
}

// first puts Best-Fit before the others: of equals the first is taken.
func first(name string) int {
	if name == "bestfit" {
		return 0
	}
	return 1
}

// policy is that of a file.
func (t Target) policy(o *policy.Object, seed uint64) (binpack.Policy, error) {
	p, err := o.Policy()
	if err != nil {
		return nil, err
	}
	return t.ties(p, seed), nil
}

// ties is a policy that breaks ties as a target does.
func (t Target) ties(p binpack.Policy, seed uint64) binpack.Policy {
	if t.runsFiles() {
		return p
	}
	return rule.AtRandom(p, seed)
}

// shapes are rules with settings: weighted resources, shapes, and one rule for items
// that are alone on a machine with another for the rest.
func shapes(target Target, inst *binpack.Instance) []rule.Settings {
	var list []rule.Settings
	var names []string
	for _, d := range inst.Dimensions {
		if !d.Device {
			names = append(names, d.Name)
		}
	}
	if len(names) > 1 {
		for i := range 2 {
			weights := map[string]int64{names[i]: 3, names[1-i]: 1}
			list = append(list, rule.Settings{Choice: rule.Choice{Name: "mostallocated", Resources: weights}})
			if target != EKS {
				list = append(list, rule.Settings{Choice: rule.Choice{Name: "requestedtocapacityratio", Resources: weights}})
			}
		}
	}
	if target == EKS {
		return list
	}
	for _, shape := range [][][]int64{{{0, 0}, {80, 2}, {100, 10}}, {{0, 0}, {50, 8}, {100, 10}}} {
		list = append(list, rule.Settings{Choice: rule.Choice{Name: "requestedtocapacityratio", Shape: shape}})
	}
	alone := slices.ContainsFunc(inst.Groups, func(g binpack.Group) bool { return g.Limit == 1 })
	if target.runsFiles() && alone {
		for _, pair := range [][2]string{{"bestfit", "worstfit"}, {"worstfit", "bestfit"}, {"bestfit", "dotproduct"}} {
			list = append(list, rule.Settings{OnePerNode: &rule.Choice{Name: pair[0]}, Others: &rule.Choice{Name: pair[1]}})
		}
	}
	return list
}

func devices(inst *binpack.Instance) bool {
	return slices.ContainsFunc(inst.Dimensions, func(d binpack.Dimension) bool { return d.Device })
}

// A method is a model with its knowledge and the features it learns.
type method struct {
	model     string
	knowledge binpack.Knowledge
	features  []string // nil = the model's own
}

func (m method) String() string {
	name := m.model + " " + m.knowledge.String()
	switch {
	case slices.Contains(m.features, "slot"):
		name += " with slots"
	case slices.Contains(m.features, "recent") && !slices.Contains(m.features, "empty"):
		name += " without empty"
	}
	return name
}

// file is the method in a file's name.
func (m method) file() string {
	return strings.ToLower(strings.ReplaceAll(m.String(), " ", "-"))
}

// features are those for clusters where pods leave: six that were chosen on generated clusters
// (kubernetes, seeds below 900000), and those of the files shipped for such clusters. With
// empty, the policy also decides when to start a machine and of which kind; without, that is
// left to the order of machines.
func features() []string {
	list := []string{"util", "mean", "full", "frag", "recent", "empty"}
	for _, o := range forLeaving() {
		for _, name := range o.Spec.Features {
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return list
}

// forLeaving are the shipped files, weighted sums without a forecast and without parameters,
// for clusters where pods leave.
func forLeaving() (list []*policy.Object) {
	for _, f := range policy.ShippedFiles() {
		s := f.Object.Spec
		if f.Departures && s.Model == "linear" && s.Knowledge == binpack.K0.String() && len(s.Parameters) == 0 {
			list = append(list, f.Object)
		}
	}
	return list
}

// forFixed are methods with the features and parameters of the shipped weighted sums for fixed fleets.
func forFixed() (list []method) {
	for _, f := range policy.ShippedFiles() {
		if s := f.Object.Spec; f.Fixed && s.Model == "linear" && s.Knowledge == binpack.K0.String() {
			list = append(list, method{"linear", binpack.K0, slices.Concat(s.Features, slices.Sorted(maps.Keys(s.Parameters)))})
		}
	}
	return list
}

// forFillUps lists the contents of the first shipped weighted sum with a knowledge, for
// clusters where nothing leaves: features, then parameters.
func forFillUps(know binpack.Knowledge) []string {
	for _, f := range policy.ShippedFiles() {
		s := f.Object.Spec
		if !f.Departures && s.Model == "linear" && s.Knowledge == know.String() {
			return slices.Concat(s.Features, slices.Sorted(maps.Keys(s.Parameters)))
		}
	}
	return nil
}

// methods are the methods trained for a target on traces.
func methods(target Target, traces []*trace.Trace) []method {
	if !target.runsFiles() {
		return []method{{policy.RuleModel, binpack.K0, nil}}
	}
	inst := traces[0].Instance
	know := forecast(traces)
	var list []method
	if fillUps(traces) {
		list = []method{{"linear", binpack.K0, forFillUps(binpack.K0)}}
		if know {
			list = append(list, method{"linear", binpack.K1, forFillUps(binpack.K1)})
		}
	} else {
		starting := features()
		list = []method{{"linear", binpack.K0, starting}}
		if inst.Fleet == binpack.Open && len(inst.Machines) > 1 {
			leaving := slices.DeleteFunc(slices.Clone(starting), func(name string) bool { return name == "empty" })
			list = append(list, method{"linear", binpack.K0, leaving})
		}
		if inst.Fleet == binpack.Fixed {
			list = append(list, forFixed()...)
		}
		if know {
			list = append(list, method{"linear", binpack.K1, append(slices.Clone(starting), "closing")})
		}
	}
	if devices(inst) && policy.ModelOf("devices").Takes(binpack.K0) {
		list = append(list, method{"devices", binpack.K0, nil})
	}
	if target == Offline {
		clock := binpack.K0Clock
		if know {
			clock = binpack.K1Clock
		}
		list = append(list, method{"linear", clock, nil})
	}
	return slices.DeleteFunc(list, func(m method) bool {
		spec := policy.Spec{Model: m.model, Features: m.features}
		return slices.ContainsFunc(traces, func(t *trace.Trace) bool { return spec.Suits(t.Instance) != nil })
	})
}

// space is the search space of a rule's settings for a target; nil = the target runs files.
func (t Target) space(inst *binpack.Instance) *train.Rules {
	if t.runsFiles() {
		return nil
	}
	s := &train.Rules{}
	for _, name := range export.Rules(string(t)) {
		if !leavesOut(name, inst) {
			s.Names = append(s.Names, name)
		}
	}
	for _, d := range inst.Dimensions {
		if export.IsResource(d.Name) {
			s.Resources = append(s.Resources, d.Name)
		}
	}
	return s
}

// forecast reports whether each trace expects items of some app.
func forecast(traces []*trace.Trace) bool {
	return !slices.ContainsFunc(traces, func(t *trace.Trace) bool {
		return !slices.ContainsFunc(t.Instance.Apps, func(a binpack.App) bool { return a.Expected > 0 })
	})
}

// zeros reports a forecast that is 0 wherever it is given.
func zeros(traces []*trace.Trace) bool {
	given := slices.ContainsFunc(traces, func(t *trace.Trace) bool {
		return slices.ContainsFunc(t.Instance.Apps, func(a binpack.App) bool { return a.Expected >= 0 })
	})
	return given && !forecast(traces)
}

// checkSuits refuses an active policy that cannot serve a trace.
func checkSuits(name string, object *policy.Object, traces []*trace.Trace) error {
	if object == nil {
		return nil
	}
	for _, t := range traces {
		if err := object.Spec.Suits(t.Instance); err != nil {
			return fmt.Errorf("policy %s for trace %q: %w", name, t.Name, err)
		}
	}
	return nil
}
