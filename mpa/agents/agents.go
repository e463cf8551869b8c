package agents

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/mpa"
)

// A Kind of agent has a name and is a rule, or a model that is made from weights.
type Kind struct {
	Name string
	// Rule makes an agent without weights. A kind has Rule or Model.
	Rule func(t mpa.Target) mpa.Agent
	// Model makes an agent from the weights that training wrote.
	Model func(t mpa.Target, weights []byte) (mpa.Agent, error)
	// Gates: it needs the measurements of gates before the pods, and may set their limit.
	Gates bool
	// Use: it needs [mpa.Observation.Use], which no simulation has.
	Use bool
}

// kinds in the order that a comparison lists them.
var kinds = []Kind{
	{Name: "static", Rule: func(mpa.Target) mpa.Agent { return Static{} }},
	{Name: "hpa", Rule: func(t mpa.Target) mpa.Agent { return NewHPA(t, DefaultHPA()) }},
	{Name: "hpa-70", Rule: func(t mpa.Target) mpa.Agent { return NewHPA(t, DefaultHPA().At(70)) }},
	{Name: "hpa-50", Rule: func(t mpa.Target) mpa.Agent { return NewHPA(t, DefaultHPA().At(50)) }},
	{Name: "vpa", Rule: func(t mpa.Target) mpa.Agent { return NewVPA(t, DefaultVPA()) }},
	{Name: "hpa+vpa", Rule: func(t mpa.Target) mpa.Agent { return NewPair(t) }},
	{Name: "hpa-cpu+vpa-cpu", Rule: func(t mpa.Target) mpa.Agent { return NewBadPair(t) }},
	{Name: "autopilot", Rule: func(t mpa.Target) mpa.Agent { return NewAutopilot(t) }},
	{Name: "predictive", Rule: func(t mpa.Target) mpa.Agent { return NewPredictive(t) }},
	{Name: "kpa", Gates: true, Rule: func(t mpa.Target) mpa.Agent { return NewKPA(t, KPAConfig{}) }},
	{Name: "kpa-rps", Gates: true, Rule: func(t mpa.Target) mpa.Agent { return NewKPA(t, KPAConfig{Rate: true}) }},
	{Name: "kpa-10", Gates: true, Rule: func(t mpa.Target) mpa.Agent { return NewKPA(t, KPAConfig{Limit: 10}) }},
	{Name: "capacity", Gates: true, Rule: func(t mpa.Target) mpa.Agent { return NewCapacity(t) }},
	{Name: "usage", Use: true, Rule: func(t mpa.Target) mpa.Agent { return NewUsage(t) }},
	{Name: "template", Use: true, Rule: func(t mpa.Target) mpa.Agent { return Template{} }},
	{Name: "learned", Model: makeLearned},
}

// Register adds a kind to those of [Make] and [Names]. Call it before either, from one
// goroutine. It panics when the name is taken, or when the kind is neither rule nor model
// or both. Tests remove the kind with undo.
func Register(k Kind) (undo func()) {
	if k.Name == "" || slices.ContainsFunc(kinds, func(other Kind) bool { return other.Name == k.Name }) {
		panic(fmt.Sprintf("agents: there is an agent %q already", k.Name))
	}
	if (k.Rule == nil) == (k.Model == nil) {
		panic(fmt.Sprintf("agents: %s: want either a rule or a model", k.Name))
	}
	kinds = append(kinds, k)
	return func() {
		kinds = slices.DeleteFunc(kinds, func(other Kind) bool { return other.Name == k.Name })
	}
}

// Names returns the names of the rules of [Make] that need neither weights, gates nor a
// history of use.
func Names() []string { return rules(func(k *Kind) bool { return !k.Gates && !k.Use }) }

// GatedNames returns the names of the rules that need the measurements of gates before the
// pods.
func GatedNames() []string { return rules(func(k *Kind) bool { return k.Gates }) }

func rules(with func(k *Kind) bool) (names []string) {
	for _, k := range kinds {
		if k.Rule != nil && with(&k) {
			names = append(names, k.Name)
		}
	}
	return names
}

// Weights are the loaded weights of learned agents, by digest.
type Weights map[string][]byte

// Add loads weights and returns their digest.
func (w Weights) Add(data []byte) (digest string) {
	digest = fmt.Sprintf("sha256:%x", sha256.Sum256(data))
	w[digest] = data
	return digest
}

// Make returns ErrUnknown for an unknown name, and ErrWeights if the weights with the digest
// of a learned agent are not loaded.
var (
	ErrUnknown = errors.New("unknown agent")
	ErrWeights = errors.New("weights are not loaded")
)

// Make makes an agent without memory.
func Make(spec mpa.Spec, t mpa.Target, loaded Weights) (mpa.Agent, error) {
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == spec.Name })
	if i < 0 {
		return nil, fmt.Errorf("%w %q: there are %s", ErrUnknown, spec.Name, strings.Join(rules(func(*Kind) bool { return true }), ", "))
	}
	k := kinds[i]
	if k.Rule != nil {
		if spec.Digest != "" {
			return nil, fmt.Errorf("agent %s is a rule and has no weights, but %s is asked for", spec.Name, spec.Digest)
		}
		return k.Rule(t), nil
	}
	weights, ok := loaded[spec.Digest]
	if !ok {
		have := "none are"
		if len(loaded) > 0 {
			have = strings.Join(slices.Sorted(maps.Keys(loaded)), ", ") + " are"
		}
		return nil, fmt.Errorf("agent %s: its %w: %q is asked for, %s loaded", spec.Name, ErrWeights, spec.Digest, have)
	}
	a, err := k.Model(t, weights)
	if err != nil {
		return nil, fmt.Errorf("agent %s, weights %s: %w", spec.Name, spec.Digest, err)
	}
	return a, nil
}
