package rollout

import (
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/binpack/learned/linear"
	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// Model places a request as a whole by sampled futures. Where it does not, it is
// the model linear, whose features and parameters it has beside its own.
var Model = learned.Model{
	Name:       "rollout",
	Knowledge:  []binpack.Knowledge{binpack.K1},
	Basis:      "draws from a forecast",
	Features:   linear.Model.Features,
	Parameters: slices.Concat(linear.Model.Parameters, parameters),
	Learns:     func(binpack.Knowledge, bool) []string { return []string{"sigma", "margin"} },
	Build:      build,
	NotLive:    "it places whole apps; in a live cluster pods come one by one",
}

func init() { policy.Register(&Model) }

var parameters = []learned.Parameter{
	{Name: "futures", Low: 1, High: 64, Meaning: "futures that propose places for a request; 16 unless given"},
	{Name: "scenarios", Low: 1, High: 64, Meaning: "futures over which the proposals are compared; 8 unless given"},
	{Name: "effort", Low: 0, High: 100, Meaning: "steps of ruin and recreate that a compared future is packed with, a third of those of one that proposes; 8 unless given"},
	{Name: "sigma", Low: 0, High: 2, Meaning: "error of the forecast: standard deviation of the logarithm of an app's count around it; .2 unless given"},
	{Name: "trust", Low: 0, High: 1, Meaning: "how exact the forecast is in all: 0 as its apps say, 1 the volume is known; 0 unless given"},
	{Name: "margin", Low: 0, High: 1, Meaning: "share by which what is to come is raised where proposals are compared, as it will not be placed in hindsight; .1 unless given"},
	{Name: "seed", Low: 0, High: 1_000_000, Meaning: "of the draws; 0 unless given"},
}
