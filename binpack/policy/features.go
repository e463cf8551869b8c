package policy

import (
	"sort"
	"strings"
)

// maxWeight bounds weights so that scores stay far from the penalty that keeps
// empty machines back.
const maxWeight = 100.0

// A Feature is one number about placing an item on a machine. docs/features.md
// is generated from these texts, what changes a Formula raises FeatureVersion.
type Feature struct {
	Name       string
	Meaning    string
	Formula    string
	Unit       string
	Range      string
	Normaliser string // what the amount is divided by; empty = nothing
}

// Features is the table of features. "After" means after the placement; app a
// is the item's, b runs over the others; R_b is the demand still to come of b
// in items, c_b its dominant share of a machine, R = Σ R_b·c_b.
var Features = []Feature{
	{
		Name: "util", Meaning: "how full the machine becomes",
		Formula: "used ÷ capacity after, the largest over dimensions",
		Unit:    "share of a machine", Range: "0 … 1", Normaliser: "the machine's capacity",
	},
	{
		Name: "mean", Meaning: "how full it becomes on average",
		Formula: "used ÷ capacity after, the mean over dimensions",
		Unit:    "share of a machine", Range: "0 … 1", Normaliser: "the machine's capacity",
	},
	{
		Name: "rise", Meaning: "how much the dimension that binds first loses: nothing where the item's peaks are not the machine's",
		Formula: "util − the largest used ÷ capacity before the placement",
		Unit:    "share of a machine", Range: "0 … 1", Normaliser: "the machine's capacity",
	},
	{
		Name: "full", Meaning: "the item fills the machine exactly",
		Formula: "1 if nothing is free in some dimension after, else 0",
		Unit:    "yes or no", Range: "0, 1",
	},
	{
		Name: "frag", Meaning: "what is left over is too small to be of use",
		Formula: "1 if the smallest free share after is above 0 and below 1/12, else 0",
		Unit:    "yes or no", Range: "0, 1", Normaliser: "the machine's capacity",
	},
	{
		Name: "empty", Meaning: "the machine would be started",
		Formula: "1 if the machine holds nothing, else 0; with it empty machines are ordinary candidates",
		Unit:    "yes or no", Range: "0, 1",
	},
	{
		Name: "recent", Meaning: "the machine was used a short while ago",
		Formula: "1 ÷ (1 + placements since the machine last took an item ÷ (active machines + 1)); 0 if it never did",
		Unit:    "share", Range: "0 … 1", Normaliser: "active machines + 1",
	},
	{
		Name: "close", Meaning: "apps that may no longer come here",
		Formula: "apps that the placement newly closes the machine to ÷ the largest number of apps that exclude one",
		Unit:    "share of apps", Range: "0 … 1", Normaliser: "the largest number of apps that exclude one",
	},
	{
		Name: "closing", Meaning: "demand to come that may no longer come here",
		Formula: "4·Σ R_b·c_b over these apps ÷ (R + 1)",
		Unit:    "4 × share of the demand to come", Range: "0 … 4", Normaliser: "R + 1",
	},
	{
		Name: "open", Meaning: "apps that may still come here",
		Formula: "share of the other apps that limits, rules and types still allow on the machine after",
		Unit:    "share of apps", Range: "0 … 1", Normaliser: "number of apps − 1",
	},
	{
		Name: "singl", Meaning: "an app that needs a machine per item takes room on a full one",
		Formula: "util · min(1, R_a ÷ (active machines + 1)) if a's limit is 1, else 0",
		Unit:    "share of a machine", Range: "0 … 1", Normaliser: "active machines + 1",
	},
	{
		Name: "slot", Meaning: "places lost to apps that are about to run out of them",
		Formula: "¼·Σ p_b over b ≠ a that are allowed and fit now and do not fit after; p_b = min(x, 1.6)^eta if b has a limit, x > .3 and R_b ≥ 3, else 0; x = R_b ÷ limit_b ÷ (places_b + 1) on a scale of 8 steps to the doubling; places_b = machines in use with room for b, and those still to be opened, to four leading bits",
		Unit:    "pressure", Range: "0 …", Normaliser: "limit_b · (places_b + 1)",
	},
}

const (
	fUtil = iota
	fMean
	fRise
	fFull
	fFrag
	fEmpty
	fRecent
	fClose
	fClosing
	fOpen
	fSingl
	fSlot
	featureCount
)

// FeatureNames lists all features.
func FeatureNames() []string {
	names := make([]string, len(Features))
	for i, f := range Features {
		names[i] = f.Name
	}
	return names
}

// featureIndex finds a feature by name; per-dimension ones are "util:cpu".
func featureIndex(name string) (index int, dimension string) {
	base, dim, _ := strings.Cut(name, ":")
	for i, f := range Features {
		if f.Name == base && (dim == "" || i == fUtil) {
			return i, dim
		}
	}
	return -1, ""
}

// FeaturesOf lists the features of a model, of devices with their classes.
func FeaturesOf(model string) []string {
	if model != "devices" {
		return FeatureNames()
	}
	var names []string
	for _, class := range deviceClassNames {
		for _, f := range DeviceFeatures {
			names = append(names, f.Name+"@"+class)
		}
	}
	return names
}

func knownFeature(model, name string) bool {
	if model == "devices" {
		feature, _ := deviceFeature(name)
		return feature >= 0
	}
	i, dim := featureIndex(name)
	return i >= 0 && (dim != "" || !strings.HasSuffix(name, ":"))
}

// A Parameter is a number of a model that is not a weight.
type Parameter struct {
	Model     string
	Low, High float64
	Meaning   string
}

var parameters = withPopulation(map[string]Parameter{
	"eta":       {"linear", .1, 7.9, "exponent of the pressure p_b in slot"},
	"beta":      {"linear", 0, 2, "with alpha: the rest of the forecast counts beta times as well"},
	"rho":       {"linear", 0, 1, "standard deviation of the factor by which all counts together differ from the forecast, .25 without it; 0 = the forecast's total is exact"},
	"alpha":     {"linear", 0, 2, "demand still to come of an app = alpha · its items alive + ½; without it the forecast counts down"},
	"z":         {"linear", -1, 1, "fleet factor 1 + .2·z: how many machines are candidates from the start, as a multiple of the expected volume"},
	"q":         {"linear", 0, 2.5, "how many standard errors the volume estimate is lowered by when machines are opened"},
	"futures":   {"rollout", 1, 64, "futures that propose places for a request; 16 unless given"},
	"scenarios": {"rollout", 1, 64, "futures over which the proposals are compared; 8 unless given"},
	"effort":    {"rollout", 0, 100, "steps of ruin and recreate that a compared future is packed with, a third of those of one that proposes; 8 unless given"},
	"sigma":     {"rollout", 0, 2, "error of the forecast: standard deviation of the logarithm of an app's count around it; .2 unless given"},
	"trust":     {"rollout", 0, 1, "how exact the forecast is in all: 0 as its apps say, 1 the volume is known; 0 unless given"},
	"margin":    {"rollout", 0, 1, "share by which what is to come is raised where proposals are compared, as it will not be placed in hindsight; .1 unless given"},
	"seed":      {"rollout", 0, 1_000_000, "of the draws; 0 unless given"},
	"steps":     {"plan", 0, 100_000, "steps of ruin and recreate before the planned fleet grows; 0 = the planner's default"},
	"slack":     {"plan", 0, .5, "share of machines planned beyond the volume bound"},
	"reserve":   {"plan", 0, 100, "price of a reserved machine that a placement makes useless, in machines filled"},
})

// Parameters gives the box of a parameter.
func Parameters(name string) (Parameter, bool) {
	p, ok := parameters[name]
	return p, ok
}

// ParameterNames lists the parameters of a model, of all with "".
func ParameterNames(model string) []string {
	var names []string
	for name, p := range parameters {
		if model == "" || p.Model == model || model == "rollout" && p.Model == "linear" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}
