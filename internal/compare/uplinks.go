package compare

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/measure"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

const (
	// Egress is the dimension of the traffic that items send, in bits a second.
	Egress = "egress"
	// EgressShare of a machine's uplink is its capacity in that dimension, unless one is set.
	EgressShare = .8
	// busyUplink is the share of an uplink above which flows wait for long.
	busyUplink = .95
)

// egressOf is the index of the dimension, or -1.
func egressOf(inst *binpack.Instance) int {
	return slices.IndexFunc(inst.Dimensions, func(d binpack.Dimension) bool { return d.Name == Egress })
}

// withoutEgress is a trace whose items send nothing.
func withoutEgress(t *trace.Trace) *trace.Trace {
	d := egressOf(t.Instance)
	inst := *t.Instance
	inst.Apps = slices.Clone(inst.Apps)
	for a := range inst.Apps {
		demand := slices.Clone(inst.Apps[a].Demand)
		demand[d] = 0
		inst.Apps[a].Demand = demand
	}
	inst.Pairs = nil
	blind := *t
	blind.Instance = &inst
	return &blind
}

// sharesOf is the share of the uplinks that a snapshot states for its capacities of egress; 0 = not stated.
func sharesOf(t *trace.Trace) float64 {
	switch share := t.Source["egressShare"].(type) {
	case float64:
		return share
	case int:
		return float64(share)
	}
	return 0
}

// raisedUplinks are the lines of machines whose pods send more than they may, in a snapshot, with
// their limit in bits a second.
func raisedUplinks(t *trace.Trace) map[int32]float64 {
	limits, _ := t.Source["uplinks"].(map[string]any)
	raised := map[int32]float64{}
	for i, m := range t.Instance.Machines {
		switch limit := limits[m.Name].(type) {
		case int:
			raised[int32(i)] = float64(limit)
		case int64:
			raised[int32(i)] = float64(limit)
		case float64:
			raised[int32(i)] = limit
		}
	}
	return raised
}

// makeUplinks has room for the loads of traces with egress.
func (c *comparison) makeUplinks() {
	c.uplinks = map[[2]int]*report.UplinkRuns{}
	for t, policies := range c.policies {
		if egressOf(c.played[t].Instance) < 0 {
			continue
		}
		share := cmp.Or(c.opt.EgressShare, sharesOf(c.played[t]), EgressShare)
		for p := range policies {
			c.uplinks[[2]int{t, p}] = &report.UplinkRuns{
				Share: share, Limit: busyUplink, Raised: raisedUplinks(c.played[t]),
				Counted: make([]measure.Uplinks, c.opt.Orders+1), Ignored: make([]measure.Uplinks, c.opt.Orders+1),
				Runs: make([]cerebro.Run, c.opt.Orders+1),
			}
		}
	}
}

// An uplinkMeter measures uplinks at the moment of a replay at which items send most, to a
// hundredth: each measurement looks at all machines.
type uplinkMeter struct {
	replayer  *cerebro.Replayer
	inst      *binpack.Instance // with the items' traffic
	d         int
	limit     float64
	raised    map[int32]float64
	now, most float64 // sent
	measured  bool
	found     measure.Uplinks
}

// meter returns one for a task, nil where the trace has no egress.
func (w *worker) meter(t task, replayer *cerebro.Replayer) *uplinkMeter {
	out := w.uplinks[[2]int{t.trace, t.policy}]
	if out == nil || w.again {
		return nil
	}
	inst := w.played[t.trace].Instance
	return &uplinkMeter{replayer: replayer, inst: inst, d: egressOf(inst), limit: out.Limit / out.Share, raised: out.Raised}
}

// record follows the replay.
func (u *uplinkMeter) record(d cerebro.Decision) {
	sends := float64(u.inst.Apps[u.replayer.Trace().Requests[d.Request].App].Demand[u.d])
	switch {
	case d.Kind == cerebro.Place:
		if u.now += sends; u.now > 1.01*u.most {
			u.measure()
		}
	case d.Kind == cerebro.Remove && d.Machine >= 0:
		u.now -= sends
	}
}

func (u *uplinkMeter) measure() {
	u.found, u.most, u.measured = measure.UplinksOf(u.replayer.State(), u.inst, u.d, u.limit, u.raised), u.now, true
}

// result is the measurement after the replay.
func (u *uplinkMeter) result() measure.Uplinks {
	if !u.measured || u.now >= u.most {
		u.measure()
	}
	return u.found
}

// ignoreEgress does a task that the worker has just done once more as if items sent nothing.
func (w *worker) ignoreEgress(t task, counted *uplinkMeter, options cerebro.Options) error {
	if counted == nil {
		return nil
	}
	out, tr := w.uplinks[[2]int{t.trace, t.policy}], w.played[t.trace]
	out.Counted[t.order] = counted.result()
	if w.blind == nil || w.blindOf != tr {
		w.blind, w.blindOf = cerebro.NewReplayer(withoutEgress(tr)), tr
	}
	meter := w.meter(t, w.blind)
	options.Record, options.Samples = meter.record, 0
	found := w.policies[t.trace][t.policy]
	run, err := w.blind.Run(found.Policy, options)
	if err != nil {
		return fmt.Errorf("trace %q, policy %s without egress, order %d: %w", tr.Name, found.Name, t.order, err)
	}
	out.Runs[t.order], out.Ignored[t.order] = run, meter.result()
	return nil
}
