package policy

import "fmt"

// Repair sets whether a cluster may move pods for one that fits on no node, and how many. It
// changes no ranking and is no part of the digest.
type Repair struct {
	Mode         RepairMode `yaml:"mode,omitempty" json:"mode,omitempty"`
	Chain        *int       `yaml:"chain,omitempty" json:"chain,omitempty"`               // most moves for one pod; nil = 8
	MovesPerHour *int       `yaml:"movesPerHour,omitempty" json:"movesPerHour,omitempty"` // of the profile; nil = 20
	MinReplicas  *int       `yaml:"minReplicas,omitempty" json:"minReplicas,omitempty"`   // of a workload whose pod may move; nil = 2
}

// RepairMode is the extent of a repair; "" is [RepairDisabled].
type RepairMode string

// The modes of a repair.
const (
	RepairDisabled RepairMode = "Disabled"
	RepairDryRun   RepairMode = "DryRun"  // it reports the pods that would move
	RepairEnabled  RepairMode = "Enabled" // it moves them
)

// The default numbers of a repair.
const (
	defaultChain        = 8
	defaultMovesPerHour = 20
	defaultMinReplicas  = 2
)

// Complete is a repair with all that it leaves out. nil is one that is disabled.
func (r *Repair) Complete() Repair {
	full := Repair{RepairDisabled, new(defaultChain), new(defaultMovesPerHour), new(defaultMinReplicas)}
	if r == nil {
		return full
	}
	if r.Mode != "" {
		full.Mode = r.Mode
	}
	for _, of := range []struct{ from, to **int }{{&r.Chain, &full.Chain}, {&r.MovesPerHour, &full.MovesPerHour}, {&r.MinReplicas, &full.MinReplicas}} {
		if *of.from != nil {
			*of.to = *of.from
		}
	}
	return full
}

// String is the repair with all that it leaves out.
func (r *Repair) String() string {
	full := r.Complete()
	return fmt.Sprintf("%s, chain %d, movesPerHour %d, minReplicas %d", full.Mode, *full.Chain, *full.MovesPerHour, *full.MinReplicas)
}

func (r *Repair) validate() error {
	if r == nil {
		return nil
	}
	switch r.Mode {
	case "", RepairDisabled, RepairDryRun, RepairEnabled:
	default:
		return fmt.Errorf("spec.repair.mode %q: want Disabled, DryRun or Enabled", r.Mode)
	}
	for _, of := range []struct {
		field       string
		n           *int
		least, most int
	}{{"chain", r.Chain, 1, 32}, {"movesPerHour", r.MovesPerHour, 1, 10_000}, {"minReplicas", r.MinReplicas, 1, 1000}} {
		if of.n != nil && (*of.n < of.least || *of.n > of.most) {
			return fmt.Errorf("spec.repair.%s %d: want %d to %d", of.field, *of.n, of.least, of.most)
		}
	}
	return nil
}
