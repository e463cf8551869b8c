package report

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/measure"
	"github.com/sigma-scheduler/sigma/cerebro"
)

// An Ignoring is a policy's replays once more without what the apps prefer and without a share of
// an app, and what failures take with it and without, by group, after one of the runs.
type Ignoring struct {
	Care          binpack.Care
	Runs          []cerebro.Run
	Groups        []string
	With, Without []measure.Failure
}

// A Care says what it costs that a policy counts what the apps prefer. Figures of runs are means
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
	// when there is none.
	Extra *float64  `json:"extra"`
	Apps  []AppRisk `json:"apps"` // groups with two items or more
}

// An AppRisk is the most items that one machine's or one zone's failure takes of a group.
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

// Text says the same in a line.
func (c *Care) Text() string {
	text := fmt.Sprintf("mode %s, at most %.6g of an app on a machine: ", c.Mode, c.Share)
	if c.Extra == nil {
		text += "no cost"
	} else {
		text += fmt.Sprintf("%+.2f %% cost against ignoring both", 100**c.Extra)
	}
	if len(c.Apps) == 0 {
		return text
	}
	risk := func(what string, part func(AppRisk) (n, of, was, ofWas int32)) string {
		mean, worst, meanWas, worstWas, apps := 0., 0., 0., 0., 0.
		for _, a := range c.Apps {
			n, of, was, ofWas := part(a)
			if of == 0 || ofWas == 0 { // unplaced in one of the two
				continue
			}
			share, shareWas := float64(n)/float64(of), float64(was)/float64(ofWas)
			mean, worst, meanWas, worstWas, apps = mean+share, max(worst, share), meanWas+shareWas, max(worstWas, shareWas), apps+1
		}
		if apps == 0 || worst == 0 {
			return ""
		}
		return fmt.Sprintf("; one %s takes %.0f %% of an app in the mean, %.0f %% at most (ignored: %.0f %%, %.0f %%)",
			what, 100*mean/apps, 100*worst, 100*meanWas/apps, 100*worstWas)
	}
	return text + risk("machine", func(a AppRisk) (n, of, was, ofWas int32) { return a.Machine, a.Items, a.IgnoredMachine, a.IgnoredItems }) +
		risk("zone", func(a AppRisk) (n, of, was, ofWas int32) { return a.Zone, a.Items, a.IgnoredZone, a.IgnoredItems })
}
