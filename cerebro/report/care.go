package report

import (
	"fmt"

	"gonum.org/v1/gonum/stat"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/measure"
	"github.com/sigma-scheduler/sigma/cerebro"
)

// An Ignoring is a policy's replays once more without the apps' preferences and without a share
// of an app, and the losses by failures with them and without, by group, after one of the runs.
type Ignoring struct {
	Care          binpack.Care
	Runs          []cerebro.Run
	Groups        []string
	With, Without []measure.Failure
}

// A Care is the cost of counting the apps' preferences in a policy. Figures of runs are means
// over the orders that count.
type Care struct {
	Mode    string  `json:"mode"`
	Share   float64 `json:"max_share_of_app"` // 1 = no limit
	Ignored struct {
		Machines    float64 `json:"machines"`
		Cost        float64 `json:"cost"`
		CostSeconds float64 `json:"cost_seconds"`
		Unplaced    float64 `json:"unplaced"`
	} `json:"ignored"`
	// Extra is cost ÷ that without preferences − 1, of cost-seconds when items also leave; nil
	// without such a cost.
	Extra *float64  `json:"extra"`
	Apps  []AppRisk `json:"apps"` // groups with two items or more
}

// An AppRisk is the most items of a group that one machine's or one zone's failure takes.
type AppRisk struct {
	App            string `json:"app"`
	Items          int32  `json:"items"`
	Machine        int32  `json:"machine"`
	Zone           int32  `json:"zone"`
	IgnoredItems   int32  `json:"ignored_items"`
	IgnoredMachine int32  `json:"ignored_machine"`
	IgnoredZone    int32  `json:"ignored_zone"`
}

func (c *Comparison) careOf(p *Ignoring, counted []Run) *Care {
	if p == nil {
		return nil
	}
	without := newResult(c, PolicyRuns{Runs: p.Runs})
	ignored := without.counted()
	out := &Care{Mode: string(p.Care.Mode), Share: p.Care.MaxShareOfApp, Apps: []AppRisk{}}
	out.Ignored.Machines = round(meanOf(ignored, machines))
	out.Ignored.Cost = round(meanOf(ignored, func(r Run) float64 { return r.Cost }))
	out.Ignored.CostSeconds = round(meanOf(ignored, func(r Run) float64 { return r.CostSeconds }))
	out.Ignored.Unplaced = round(meanOf(ignored, unplaced))
	if base := meanOf(ignored, c.cost); base > 0 {
		extra := round(meanOf(counted, c.cost)/base - 1)
		out.Extra = &extra
	}
	for g, name := range p.Groups {
		a, b := p.With[g], p.Without[g]
		if max(a.Items, b.Items) >= 2 {
			out.Apps = append(out.Apps, AppRisk{name, a.Items, a.Machine, a.Zone, b.Items, b.Machine, b.Zone})
		}
	}
	return out
}

// CareNotes report the cost of counting preferences, a line for each policy and mode: of one trace its figures, of several their means
// with the standard error and the trace on which it costs most. The JSON has all of them.
func CareNotes(comparisons []Comparison) (notes []string) {
	type kind struct {
		policy, mode string
		share        float64
	}
	var kinds []kind
	found := map[kind][]*Care{}
	of := map[*Care]string{}
	for i := range comparisons {
		for _, r := range comparisons[i].Results {
			if r.Care == nil {
				continue
			}
			k := kind{r.Policy, r.Care.Mode, r.Care.Share}
			if found[k] == nil {
				kinds = append(kinds, k)
			}
			found[k], of[r.Care] = append(found[k], r.Care), comparisons[i].Trace.Name
		}
	}
	for _, k := range kinds {
		list := found[k]
		text := fmt.Sprintf("preferences under %s: mode %s, at most %.6g of an app on a machine: %s%s", k.policy, k.mode, k.share, extraText(list, of), riskText(list))
		if len(comparisons) == 1 {
			text = comparisons[0].Trace.Name + ": " + text
		}
		notes = append(notes, text)
	}
	return notes
}

// extraText is the cost of care on some traces.
func extraText(list []*Care, of map[*Care]string) string {
	var extra []float64
	most := (*Care)(nil)
	for _, c := range list {
		if c.Extra == nil {
			continue
		}
		if extra = append(extra, 100**c.Extra); most == nil || *c.Extra > *most.Extra {
			most = c
		}
	}
	switch len(extra) {
	case 0:
		return "no cost"
	case 1:
		return fmt.Sprintf("%+.2f %% cost against ignoring both", extra[0])
	}
	mean, deviation := stat.MeanStdDev(extra, nil)
	return fmt.Sprintf("%+.2f ± %.2f %% cost against ignoring both, mean of %d traces, at most %+.2f %% (%s)",
		mean, stat.StdErr(deviation, float64(len(extra))), len(extra), 100**most.Extra, of[most])
}

// riskText describes the losses of some traces' apps by the failure of a machine and of a zone.
func riskText(list []*Care) string {
	risk := func(what string, part func(AppRisk) (n, of, was, ofWas int32)) string {
		mean, worst, meanWas, worstWas, apps := 0., 0., 0., 0., 0.
		for _, c := range list {
			for _, a := range c.Apps {
				n, of, was, ofWas := part(a)
				if of == 0 || ofWas == 0 { // unplaced in one of the two
					continue
				}
				share, shareWas := float64(n)/float64(of), float64(was)/float64(ofWas)
				mean, worst, meanWas, worstWas, apps = mean+share, max(worst, share), meanWas+shareWas, max(worstWas, shareWas), apps+1
			}
		}
		if apps == 0 || worst == 0 {
			return ""
		}
		return fmt.Sprintf("; one %s takes %.0f %% of an app in the mean, %.0f %% at most (ignored: %.0f %%, %.0f %%)",
			what, 100*mean/apps, 100*worst, 100*meanWas/apps, 100*worstWas)
	}
	return risk("machine", func(a AppRisk) (n, of, was, ofWas int32) { return a.Machine, a.Items, a.IgnoredMachine, a.IgnoredItems }) +
		risk("zone", func(a AppRisk) (n, of, was, ofWas int32) { return a.Zone, a.Items, a.IgnoredZone, a.IgnoredItems })
}
