package tune

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
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

// A method is a search of a model's weights and parameters, or of a rule's settings.
type method struct {
	model     string
	knowledge binpack.Knowledge
	features  []string       // and parameters; nil = the model's own
	start     *policy.Object // nil = anywhere
	near      bool           // the search stays near start
}

func (m method) String() string {
	name := m.model + " " + m.knowledge.String()
	if m.near {
		name += " from " + m.start.Metadata.Name
	}
	return name
}

// file is the method in a file's name.
func (m method) file() string {
	name := m.model + "-" + m.knowledge.String()
	if m.near { // a name may hold any characters
		name += "-from-" + strings.TrimPrefix(m.start.Digest(), "sha256:")[:12]
	}
	return strings.ToLower(name)
}

// methods are the searches for a target: of the settings of upstream's rule, or near the file that decides under
// the policy in force; offline also of policies with the clock.
func (r *run) methods() ([]method, error) {
	if !r.cfg.Target.runsFiles() {
		start := ruleObject(rule.Settings{Choice: rule.Choice{Name: "mostallocated"}})
		return []method{{model: policy.RuleModel, knowledge: binpack.K0, start: start}}, nil
	}
	var list []method
	start, err := r.deciding()
	if err != nil {
		return nil, err
	}
	if start != nil {
		list = append(list, nearTo(start))
	}
	if r.cfg.Target == Offline {
		clock := binpack.K0Clock
		if forecast(r.traces) {
			clock = binpack.K1Clock
		}
		list = append(list, method{model: "linear", knowledge: clock})
	}
	return list, nil
}

// nearTo is the search near a file.
func nearTo(o *policy.Object) method {
	know, _ := binpack.ParseKnowledge(o.Spec.Knowledge)
	numbers := slices.Concat(o.Spec.Features, slices.Sorted(maps.Keys(o.Spec.Parameters)))
	return method{model: o.Spec.Model, knowledge: know, features: numbers, start: o, near: true}
}

// deciding is the file that decides most items of a training window under the policy in force: that policy, or the
// file that it chooses; where a rule is in force, the one that the installed policy chooses. It is nil where that
// file has no numbers to learn.
func (r *run) deciding() (*policy.Object, error) {
	current, err := r.inForce()
	if err != nil {
		return nil, err
	}
	o := current.object
	if o == nil || o.Spec.Model == policy.RuleModel {
		o = policy.Shipped()
	}
	if o.Spec.Model == policy.ShippedModel {
		windows := r.scenarios()
		if o, err = chosenFile(o, windows[len(windows)-1]); err != nil {
			return nil, err
		}
	}
	if o == nil || !slices.Contains(policy.TrainableNames(), o.Spec.Model) {
		return nil, nil
	}
	return o, nil
}

// chosenFile is the shipped file that a policy chooses for most items of a trace; nil if for none.
func chosenFile(o *policy.Object, t *trace.Trace) (file *policy.Object, err error) {
	p, err := o.Policy()
	if err != nil {
		return nil, err
	}
	run, err := cerebro.NewReplayer(t).Run(p, cerebro.Options{Retry: true, Brief: true, Fallback: rule.Fallback{}})
	items, most := map[string]int{}, 0
	for _, c := range run.Choices {
		items[c.Name] += c.Items
		if items[c.Name] > most {
			most = items[c.Name]
			file = policy.ShippedChoice(c.Choice)
		}
	}
	return file, err
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
