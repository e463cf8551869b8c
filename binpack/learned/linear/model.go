package linear

import (
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
)

// Model is the weighted sum of features.
var Model = learned.Model{
	Name:       "linear",
	Features:   features,
	Parameters: parameters,
	Learns:     learns,
	Build:      func(s learned.Spec) (binpack.Policy, error) { return New(s) },
}

func learns(k binpack.Knowledge, fixed bool) []string {
	if fixed {
		return []string{"util", "full", "frag", "close", "closing", "slot", "open", "singl", "eta", "alpha"}
	}
	switch k {
	case binpack.K0:
		return []string{"util", "full", "frag", "recent", "close", "closing", "open", "alpha"}
	case binpack.K1, binpack.K2:
		return []string{"util", "closing", "slot", "eta", "z", "q"}
	default:
		return []string{"util", "full", "frag", "close", "closing", "slot", "open", "singl", "eta", "alpha", "z", "q"}
	}
}

// features is the table of features. "After" means after the placement; app a is
// the item's, b runs over the others; R_b is the future demand of b in items, c_b
// its dominant share of a machine, R = Σ R_b·c_b.
var features = []learned.Feature{
	{
		Name: "util", Meaning: "how full the machine becomes", PerDimension: true,
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
		Name: "tight", Meaning: "how full the machine becomes, where the limits of an app and not the volume set the number of machines",
		Formula: "util · max(0, 2·min(1, L ÷ (active machines + 1)) − 1), L = the largest items alive of a group ÷ its limit",
		Unit:    "share of a machine", Range: "0 … 1", Normaliser: "active machines + 1",
	},
	{
		Name: "age", Meaning: "the machine has been in use for long, and will be",
		Formula: "p ÷ (p + 10·(active machines + 1)), p = placements since the first of its present items came; 0 if it holds nothing",
		Unit:    "share", Range: "0 … 1", Normaliser: "10·(active machines + 1)",
	},
	{
		Name: "crowd", Meaning: "the machine holds many items, so that it will not be empty soon",
		Formula: "n ÷ (n + (items alive + 1) ÷ (active machines + 1)), n = items on it before the placement",
		Unit:    "share", Range: "0 … 1", Normaliser: "items of an active machine",
	},
	{
		Name: "own", Meaning: "the machine holds items of the app's group, which a roll-out is about to remove",
		Formula: "1 if it does before the placement, else 0",
		Unit:    "yes or no", Range: "0, 1",
	},
	{
		Name: "size", Meaning: "a large item goes to a full machine",
		Formula: "util · the item's largest share of the machine over dimensions",
		Unit:    "share of a machine, squared", Range: "0 … 1", Normaliser: "the machine's capacity",
	},
	{
		Name: "price", Meaning: "another kind of machine holds what the cluster holds for less",
		Formula: "1 − (least p over kinds) ÷ p of the machine's kind; p_k = cost_k · (largest over dimensions of volume alive ÷ capacity_k)",
		Unit:    "share of the cost", Range: "0 … 1", Normaliser: "the cost of the machine's kind",
	},
	{
		Name: "bill", Meaning: "another kind of machine holds what the cluster holds for less, limits included",
		Formula: "as price, with p_k = cost_k · max(the largest over dimensions of volume alive ÷ capacity_k, L), L = the largest items alive of a group ÷ its limit",
		Unit:    "share of the cost", Range: "0 … 1", Normaliser: "the cost of the machine's kind",
	},
	{
		Name: "partners", Meaning: "traffic that would stay on the machine",
		Formula: "Σ w·s ÷ Σ w over pairs of a with a group b of which something lives: w = what an item of a sends to b, or gets from it; s = b's items on the machine ÷ those alive, paired: 1 if it holds more of b than of a's group, else 0; 0 without pairs",
		Unit:    "share of the item's traffic", Range: "0 … 1", Normaliser: "the item's traffic",
	},
	{
		Name: "slot", Meaning: "places lost to apps that are about to run out of them",
		Formula: "¼·Σ p_b over b ≠ a that are allowed and fit now and do not fit after; p_b = min(x, 1.6)^eta if b has a limit, x > .3 and R_b ≥ 3, else 0; x = R_b ÷ limit_b ÷ (places_b + 1) on a scale of 8 steps to the doubling; places_b = machines in use with room for b, and those still to be opened, to four leading bits",
		Unit:    "pressure", Range: "0 …", Normaliser: "limit_b · (places_b + 1)",
	},
	{
		Name: "press", Meaning: "slot on clusters in which limits need many machines, in place of slot: elsewhere it changes little and costs time",
		Formula: "slot while 3·L ≥ active machines + 1, L as in tight; else 0",
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
	fTight
	fAge
	fCrowd
	fOwn
	fSize
	fPrice
	fBill
	fPartners
	fSlot
	fPress
	featureCount
)

var parameters = []learned.Parameter{
	{Name: "eta", Low: .1, High: 7.9, Meaning: "exponent of the pressure p_b in slot"},
	{Name: "beta", Low: 0, High: 2, Meaning: "with alpha: the rest of the forecast counts beta times as well"},
	{Name: "rho", Low: 0, High: 1, Meaning: "standard deviation of the factor by which all counts together differ from the forecast, .25 without it; 0 = the forecast's total is exact"},
	{Name: "alpha", Low: 0, High: 2, Meaning: "demand still to come of an app = alpha · its items alive + ½; without it the forecast counts down"},
	{Name: "pace", Low: 0, High: 4, Meaning: "at K1, with z: the elapsed share is estimated from how evenly the apps have come, and the volume from that and the forecast; their standard error counts pace times"},
	{Name: "z", Low: -1, High: 1, Meaning: "fleet factor 1 + .2·z: how many machines are candidates from the start, as a multiple of the expected volume"},
	{Name: "q", Low: 0, High: 2.5, Meaning: "how many standard errors the volume estimate is lowered by when machines are opened"},
}
