package cerebro

import "github.com/sigma-scheduler/sigma/binpack"

// A Run has the results of one replay. Slices have one value per dimension.
type Run struct {
	Order        int
	Machines     int     // holding an item at the end
	PeakMachines int     // the most at any time
	Cost         float64 // of the machines holding an item at the end
	// MachineSeconds and CostSeconds are integrals over time from the trace's
	// MeasureFrom, or the first event, to the last event.
	MachineSeconds, CostSeconds float64
	// AllocationRate is placed demand ÷ capacity of the machines holding an
	// item (open fleet) or of all (fixed), at the end; MeanAllocationRate its
	// time-weighted mean.
	AllocationRate, MeanAllocationRate []float64
	// Fragment, Balance and Spread: see package measure. At the end.
	Fragment, Balance, Spread float64
	Placed, Unplaced          int
	// LeftOut counts the unplaced items by app; nil = none.
	LeftOut map[int32]int
	// Stayed counts the items that stay on their past machines, see Options.Stay.
	Stayed int
	// Moves of items from machine to machine.
	Moves int
	// AwaySeconds is the sum over items of the seconds that they were away while they moved, or
	// waited for the moves that freed their machine. It is 0 where moves take no time.
	AwaySeconds float64
	// Rejected is unplaced demand ÷ all demand.
	Rejected []float64
	// FirstRejection is the share of the summed first dimension that arrived before the
	// first unplaced item; 1 without one.
	FirstRejection float64
	// MeanWaiting is the mean of the seconds that an item waited for its machine, or in
	// vain until it left or the last event: over all items that arrived. LongestWaiting
	// is the most of one item. Both are 0 without Retry.
	MeanWaiting, LongestWaiting float64
	// Violations found by the independent checker at the end of the replay.
	Violations int
	// Seconds of CPU that the replay took; 0 unless timing was requested.
	Seconds float64
	// ImbalanceTie is the mean squared free share of the active machines at
	// the end: the smooth tie-breaker of the training cost.
	ImbalanceTie float64
	// Use judges the replay by Options.Usage; nil without it.
	Use *Use
	// Fallbacks counts items that the policy did not decide, by cause.
	Fallbacks map[string]int
	// Choices are the policies to which a [binpack.Switch] left the items, in order; one
	// that followed itself is not repeated.
	Choices []Choice
	// Series is the time series, if the caller requested one.
	Series []Sample
	// Preferring is the number of items with preferences, and GivenUp the sum over them of the
	// share of these, by weight, that they did not get although some machine had it.
	Preferring int
	GivenUp    float64
	// Marks are the sums at the times that the caller requested.
	Marks []Mark
}

// A Mark has the sums of a run up to a time, from the trace's MeasureFrom.
type Mark struct {
	CostSeconds    float64
	WaitingSeconds float64 // of all items that wait for a machine; 0 without Retry
	Refused        int     // items that found no machine on arrival
	Preferring     int     // items placed that prefer something; 0 without Options.GivenUp, as
	GivenUp        float64 // the sum over them of the share of that which they give up
}

// A Choice is the policy to which a [binpack.Switch] left some items in a row.
type Choice struct {
	Since float64 // time of the first of them
	Items int
	binpack.Choice
}

// A Sample is one point of the time series of a run.
type Sample struct {
	Time       float64
	Machines   int
	Allocation []float64 // per dimension, as AllocationRate
}
