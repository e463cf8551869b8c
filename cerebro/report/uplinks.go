package report

import (
	"fmt"

	"gonum.org/v1/gonum/stat"

	"github.com/sigma-scheduler/sigma/binpack/measure"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// Uplinks is the effect of counting the items' traffic in a policy: the load of the machines' uplinks at the moment of
// the replays at which most is sent, with it and without. Figures are means over the orders that count; most is the
// highest of all.
type Uplinks struct {
	Limit   float64    `json:"limit"` // share of the uplink above which a machine counts as over
	Counted UplinkLoad `json:"counted"`
	Ignored UplinkLoad `json:"ignored"`
	// Extra is cost ÷ that where egress does not count − 1, of cost-seconds when items also leave;
	// nil without such a cost.
	Extra *float64 `json:"extra"`
}

// An UplinkLoad is the load of the uplinks of the machines in use, without traffic that stays on a machine.
type UplinkLoad struct {
	Machines float64 `json:"machines"`
	Over     float64 `json:"over"`
	Most     float64 `json:"most"`  // share of the uplink
	Local    float64 `json:"local"` // share of all traffic
}

// UplinkRuns are the results of [measure.UplinksOf] in each order, with the items' traffic
// and as if they sent nothing. Share is the part of the uplink that the capacity of machines
// is.
type UplinkRuns struct {
	Share, Limit     float64
	Raised           map[int32]float64 // as in [measure.UplinksOf]
	Counted, Ignored []measure.Uplinks
	Runs             []cerebro.Run // as if they sent nothing
}

func (c *Comparison) uplinksOf(p *UplinkRuns, counted []Run) *Uplinks {
	load := func(list []measure.Uplinks) (l UplinkLoad) {
		if len(list) > 1 { // order 0 is apart
			list = list[1:]
		}
		for _, u := range list {
			l.Machines += float64(u.Machines) / float64(len(list))
			l.Over += float64(u.Over) / float64(len(list))
			l.Local += u.Local / float64(len(list))
			l.Most = max(l.Most, u.Most*p.Share)
		}
		return UplinkLoad{round(l.Machines), round(l.Over), round(l.Most), round(l.Local)}
	}
	u := &Uplinks{Limit: p.Limit, Counted: load(p.Counted), Ignored: load(p.Ignored)}
	without := newResult(c, PolicyRuns{Runs: p.Runs})
	if base := meanOf(without.counted(), c.cost); base > 0 {
		extra := round(meanOf(counted, c.cost)/base - 1)
		u.Extra = &extra
	}
	return u
}

// UplinkNotes report the effect of counting egress, a line for each policy: of one trace its
// figures, of several their sums, and the mean cost with its standard error.
func UplinkNotes(comparisons []Comparison) (notes []string) {
	var policies []string
	found, in := map[string][]*Uplinks{}, map[string]string{}
	for i := range comparisons {
		for _, r := range comparisons[i].Results {
			if r.Uplinks == nil {
				continue
			}
			if found[r.Policy] == nil {
				policies = append(policies, r.Policy)
			}
			found[r.Policy], in[r.Policy] = append(found[r.Policy], r.Uplinks), comparisons[i].Trace.Name
		}
	}
	for _, name := range policies {
		list := found[name]
		var extra []float64
		counted, ignored := UplinkLoad{}, UplinkLoad{}
		for _, u := range list {
			counted.add(u.Counted)
			ignored.add(u.Ignored)
			if u.Extra != nil {
				extra = append(extra, 100**u.Extra)
			}
		}
		where, costs := in[name], ""
		if len(list) > 1 {
			where = fmt.Sprintf("%d traces", len(list))
		}
		switch mean, deviation := stat.MeanStdDev(extra, nil); len(extra) {
		case 0:
		case 1:
			costs = fmt.Sprintf(". Counting it costs %+.1f %%", mean)
		default:
			costs = fmt.Sprintf(". Counting it costs %+.1f ± %.1f %%", mean, stat.StdErr(deviation, float64(len(extra))))
		}
		notes = append(notes, fmt.Sprintf("%s: uplinks under %s when most is sent: %s; as if egress did not count: %s%s",
			where, name, counted.text(list[0].Limit), ignored.text(list[0].Limit), costs))
	}
	return notes
}

// add sums loads, each weighed by its machines.
func (l *UplinkLoad) add(o UplinkLoad) {
	if sum := l.Machines + o.Machines; sum > 0 {
		l.Local = (l.Local*l.Machines + o.Local*o.Machines) / sum
	}
	l.Machines, l.Over, l.Most = l.Machines+o.Machines, l.Over+o.Over, max(l.Most, o.Most)
}

func (l *UplinkLoad) text(limit float64) string {
	s := fmt.Sprintf("%s of %s machines above %.3g %% of their uplink, the busiest at %.0f %%", sheet.Short(l.Over), sheet.Short(l.Machines), 100*limit, 100*l.Most)
	if l.Local > 0 {
		s += fmt.Sprintf(", %.1f %% of the traffic stays on a machine", 100*l.Local)
	}
	return s
}
