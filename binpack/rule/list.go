package rule

import (
	"fmt"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Options are the settings of the rules.
type Options struct {
	// Seed of random and of the random ties of upstream's strategies.
	Seed uint64
	// TiesByPosition makes upstream's strategies break ties by lowest position
	// instead of at random.
	TiesByPosition bool
}

// known lists the rules in the order in which they are shown.
var known = []struct {
	name string
	make func(Options) binpack.Policy
}{
	{"firstfit", func(Options) binpack.Policy { return FirstFit{} }},
	{"nextfit", func(Options) binpack.Policy { return NextFit{} }},
	{"bestfit-cpu", func(Options) binpack.Policy { return BestFitCPU{} }},
	{"bestfit", func(Options) binpack.Policy { return BestFit{} }},
	{"bestfit-l2", func(Options) binpack.Policy { return BestFitL2{} }},
	{"worstfit", func(Options) binpack.Policy { return WorstFit{} }},
	{"dotproduct", func(Options) binpack.Policy { return DotProduct{} }},
	{"harmonic", func(Options) binpack.Policy { return Harmonic{} }},
	{"movetofront", func(Options) binpack.Policy { return MoveToFront{} }},
	{"fgd", func(Options) binpack.Policy { return FGD{} }},
	{"bestfit-fgd", func(Options) binpack.Policy { return BestFitFGD{} }},
	{"dotproduct-min", func(Options) binpack.Policy { return DotProductMin{} }},
	{"gpupacking", func(Options) binpack.Policy { return GPUPacking{} }},
	{"gpuclustering", func(Options) binpack.Policy { return GPUClustering{} }},
	{"mostallocated", func(o Options) binpack.Policy { return MostAllocated{Ties: tiesOf(o)} }},
	{"leastallocated", func(o Options) binpack.Policy { return LeastAllocated{Ties: tiesOf(o)} }},
	{"requestedtocapacityratio", func(o Options) binpack.Policy { return RequestedToCapacityRatio{Ties: tiesOf(o)} }},
	{"balancedallocation", func(o Options) binpack.Policy { return BalancedAllocation{Ties: tiesOf(o)} }},
	{"random", func(o Options) binpack.Policy { return Random{Seed: o.Seed} }},
}

// aliases are second names.
var aliases = map[string]string{"bestfit-l1": "bestfit"}

// ByName finds a rule. An unknown name is an error that lists the known ones.
func ByName(name string, opt Options) (binpack.Policy, error) {
	full := name
	if a, ok := aliases[name]; ok {
		full = a
	}
	for _, p := range known {
		if p.name == full {
			return p.make(opt), nil
		}
	}
	return nil, fmt.Errorf("unknown policy %q: there are %s", name, strings.Join(Names(), ", "))
}

// Names lists the names that [ByName] takes, without second names (bestfit-l1
// is bestfit).
func Names() []string {
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.name
	}
	return names
}
