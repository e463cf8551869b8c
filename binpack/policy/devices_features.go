package policy

import (
	"slices"
	"strings"
)

// DeviceFeatures is the table of features of the model devices. They are listed
// with a class of items, as fragment@shared, and weigh for that class alone; see
// [DeviceClasses]. "Left" is after the placement.
var DeviceFeatures = []Feature{
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
	deviceFeatures
)

// deviceValues are the features of a placement, or their weights.
type deviceValues [deviceFeatures]float64

// Classes of items, by the GPUs they ask for.
const (
	classNone = iota
	classShared
	classWhole
	deviceClasses
)

var deviceClassNames = [deviceClasses]string{"none", "shared", "whole"}

func deviceClass(gpu, one int64) int {
	switch {
	case gpu == 0:
		return classNone
	case gpu < one:
		return classShared
	}
	return classWhole
}

// deviceFeature finds a feature by its name with its class; feature is -1 where
// there is none.
func deviceFeature(name string) (feature, class int) {
	base, suffix, _ := strings.Cut(name, "@")
	class = slices.Index(deviceClassNames[:], suffix)
	if class < 0 {
		return -1, -1
	}
	return slices.IndexFunc(DeviceFeatures, func(f Feature) bool { return f.Name == base }), class
}
