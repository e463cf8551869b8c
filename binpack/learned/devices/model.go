package devices

import (
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
)

// Model is a weighted sum of features for each class of items by the GPUs that they
// request.
var Model = learned.Model{
	Name:     "devices",
	Features: features,
	Classes:  classNames,
	Learns:   func(binpack.Knowledge, bool) []string { return learned.FeatureNames(features, classNames) },
	Build:    func(s learned.Spec) (binpack.Policy, error) { return New(s) },
}

// features is the table of features. They are listed with a class of items, as
// fragment@shared, and weigh for that class alone. "Left" is after the placement.
var features = []learned.Feature{
	{
		Name: "fragment", Meaning: "GPUs that the expected item can no longer use",
		Formula: "growth of F = Σ over typical items of their share of the mix · GPUs left that such an item cannot use (FGD)",
		Unit:    "GPUs", Range: "−GPUs … GPUs",
	},
	{
		Name: "stranded", Meaning: "GPUs that lack the cpu to use them",
		Formula: "growth of max(0, GPUs left − cpu left ÷ the cpu for each GPU that typical items with GPUs ask for)",
		Unit:    "GPUs", Range: "−GPUs … GPUs",
	},
	{
		Name: "gpu", Meaning: "GPUs left",
		Formula: "GPUs left ÷ those of the largest machine",
		Unit:    "share of a machine", Range: "0 … 1", Normaliser: "the largest machine's GPUs",
	},
	{
		Name: "cpu", Meaning: "cpu left",
		Formula: "cpu left ÷ that of the largest machine",
		Unit:    "share of a machine", Range: "0 … 1", Normaliser: "the largest machine's cpu",
	},
	{
		Name: "rank", Meaning: "the machine stands late in the file: a bias that fills machines in order",
		Formula: "machines before it ÷ machines; 0 in an open fleet",
		Unit:    "share of the machines", Range: "0 … 1", Normaliser: "machines of the fleet",
	},
}

const (
	dFragment = iota
	dStranded
	dGPU
	dCPU
	dRank
	featureCount
)

// values are the features of a placement, or their weights.
type values [featureCount]float64

// Classes of items, by the GPUs they request.
const (
	classNone = iota
	classShared
	classWhole
	classCount
)

var classNames = []string{"none", "shared", "whole"}

// classOf returns the class of items that request an amount of GPUs.
func classOf(gpu, one int64) int {
	switch {
	case gpu == 0:
		return classNone
	case gpu < one:
		return classShared
	}
	return classWhole
}
