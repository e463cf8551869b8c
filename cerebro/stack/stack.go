package stack

import (
	"errors"
	"fmt"
	"math"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A Config is a stack and the time that it is judged for.
type Config struct {
	// Policy is the scheduler's.
	Policy binpack.Policy
	// Provisioner launches nodes and removes them.
	Provisioner Provisioner
	// Movers evict pods so that they land elsewhere.
	Movers []Mover
	// Sizer changes requests; nil = they stay as in the trace.
	Sizer Sizer
	// Usage is the measured use of the pods; nil = no risk is judged.
	Usage *trace.Usage
	// Boot is the time from the launch of a node until it takes pods, in seconds.
	Boot float64
	// Begin is the time at which the simulation begins with the pods that live then. From and Until are those of the
	// time that is judged.
	Begin, From, Until float64
	// Losses are the times at which nodes are lost without notice.
	Losses []Loss
}

// A Loss takes nodes away at a time.
type Loss struct {
	At   float64
	Lost func(node, nodes int) bool // by the order of launch among the living ones; nil = none
	// Zone is one whose nodes are lost, and in which none is launched until a time; empty = none.
	Zone  string
	Until float64
}

// A Provisioner launches nodes for pods that wait, and removes nodes.
type Provisioner interface {
	// start schedules its turns.
	start(c *cluster)
	// pending reacts to a pod that waits.
	pending(c *cluster)
}

// A Mover evicts pods at times of its own.
type Mover interface{ start(c *cluster) }

// A Sizer recommends requests from measured use.
type Sizer interface {
	// Sample is the use of a pod over the step that begins at a time: cores and bytes; NaN = no sample.
	Sample(at float64, app, item int32, cpu, memory float64)
	// Killed is a pod that exceeded its memory limit.
	Killed(at float64, app, item int32)
	// Demand returns the demand of an app's pods from a time on, in units, or nil for no change. present is the demand
	// now.
	Demand(at float64, app int32, present []int64) []int64
	// ScalesLimits reports whether memory limits keep their ratio to requests.
	ScalesLimits() bool
	// Evicts reports whether pods whose new size has no room on their node are evicted.
	Evicts() bool
}

// A Result is judged from Config.From to Config.Until.
type Result struct {
	Cost      float64 `json:"cost"` // of nodes, from launch to removal, in units of machines.csv
	NodeHours float64 `json:"node_hours"`
	PodHours  float64 `json:"pod_hours"`
	Launched  int     `json:"launched"`
	// Evicted are the pods that a provisioner, mover or sizer evicted, by cause; they start again elsewhere.
	Evicted map[Cause]int `json:"evicted"`
	// Killed are the containers that ran out of memory, by their limit or on a full node.
	Killed int `json:"killed"`
	// WaitMinutes are minutes of pods without a node.
	WaitMinutes float64 `json:"wait_minutes"`
	// Over is the share of node-time with more cpu or memory in use than the node has.
	Over float64 `json:"over"`
	// Broken are minutes of workloads whose pods got less than 95 % of the cpu that they use, since they wait or their
	// node has too little.
	Broken float64 `json:"broken_minutes"`
	// AppMinutes are the minutes of all workloads whose pods use cpu.
	AppMinutes float64 `json:"app_minutes"`
	// Unplaced are the pods that still wait at the end.
	Unplaced int `json:"unplaced"`
}

// Moved is the number of all evictions.
func (r *Result) Moved() (n int) {
	for _, k := range r.Evicted {
		n += k
	}
	return n
}

// A Cause of evictions.
type Cause string

// The causes of evictions.
const (
	Consolidation Cause = "consolidation"
	Rebalancing   Cause = "rebalance"
	Descheduling  Cause = "descheduler"
	Resizing      Cause = "resize"
	Fitting       Cause = "fit"
	Relieving     Cause = "relief"
	Lost          Cause = "lost node"
	OutOfMemory   Cause = "out of memory"
)

// Run simulates a stack on a trace of an open fleet. The same arguments give the same result.
func Run(t *trace.Trace, cfg Config) (Result, error) {
	if err := check(t, &cfg); err != nil {
		return Result{}, fmt.Errorf("trace %s: %w", t.Name, err)
	}
	c, err := newCluster(t, &cfg)
	if err != nil {
		return Result{}, fmt.Errorf("trace %s: %w", t.Name, err)
	}
	c.run()
	return c.out, c.err
}

func check(t *trace.Trace, cfg *Config) error {
	inst := t.Instance
	switch {
	case inst.Fleet != binpack.Open:
		return errors.New("a stack wants an open fleet: the provisioner decides on the number of nodes")
	case cfg.Policy == nil || cfg.Provisioner == nil:
		return errors.New("a stack wants a policy and a provisioner")
	case !(cfg.Begin <= cfg.From && cfg.From < cfg.Until) || math.IsInf(cfg.Until, 0):
		return fmt.Errorf("begin %g, from %g, until %g: want times in this order", cfg.Begin, cfg.From, cfg.Until)
	case cfg.Policy.Knowledge() != binpack.K0:
		return fmt.Errorf("the policy has knowledge %s: a stack has no forecast, want K0", cfg.Policy.Knowledge())
	}
	for _, m := range inst.Machines {
		if m.Count != binpack.Unlimited {
			return fmt.Errorf("machine %s: a stack wants node types without a number", m.Name)
		}
	}
	return nil
}
