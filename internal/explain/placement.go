package explain

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
)

// An Item explains the placement of an item of a trace, with names in place of
// indices.
type Item struct {
	Trace   string  `json:"trace"`
	Request string  `json:"request"`
	Item    int32   `json:"item"`
	Time    float64 `json:"time"`
	Order   int     `json:"order"`
	Seed    uint64  `json:"seed"`
	decision
}

// A decision has the fields that an item of a trace and a pod of a cluster share.
type decision struct {
	Policy     string       `json:"policy"`
	File       string       `json:"file,omitempty"` // shipped file that serves
	Knowledge  string       `json:"knowledge"`
	App        string       `json:"app"`
	Group      string       `json:"group"`
	Demand     []amountView `json:"demand"`
	Limit      int32        `json:"limit"`     // items of the group per machine, 0 = no limit
	SpreadMin  int32        `json:"spreadMin"` // machines before any takes a second, 0 = no spread
	Zone       *zoneView    `json:"zone,omitempty"`
	Types      []string     `json:"types"` // empty = all
	Rules      []ruleView   `json:"rules"`
	Fleet      string       `json:"fleet"`
	InUse      int          `json:"inUse"`
	Offered    int          `json:"offered"`
	Rejected   []rejection  `json:"rejected"`
	Candidates int          `json:"candidates"`
	Chosen     *choiceView  `json:"chosen"` // null = the item is left out
	RunnerUp   *choiceView  `json:"runnerUp"`
	Tied       int          `json:"tied"` // other candidates with the chosen one's score
	Fallback   bool         `json:"fallback"`
	Terms      []termView   `json:"terms"`
	Empties    *emptiesView `json:"empties"` // null = the policy never keeps any back
	// Preferences is null where the item prefers nothing and no share of its app counts.
	Preferences *preferencesView `json:"preferences"`
}

// A zoneView is the same by zone; 0 = no limit.
type zoneView struct {
	Limit     int32 `json:"limit"`
	SpreadMin int32 `json:"spreadMin"`
	Skew      int32 `json:"skew"` // items that a zone may hold more than another one
}

type amountView struct {
	Dimension string `json:"dimension"`
	Amount    string `json:"amount"`
}

type ruleView struct {
	App   string `json:"app"`
	Other string `json:"other"`
	Max   int32  `json:"max"`
	// ByZone: in a zone, not on a machine.
	ByZone bool `json:"byZone,omitempty"`
}

type rejection struct {
	Reason   string `json:"reason"` // capacity, devices, type, limit, rule, spread, or of zones
	What     string `json:"what"`
	Machines int    `json:"machines"`
}

type choiceView struct {
	Machine string       `json:"machine"`
	Items   int32        `json:"items"`
	Free    []amountView `json:"free"` // in the item's dimensions
	Score   float64      `json:"score"`
}

// A termView is a part of the score. The runner-up's numbers are null when there is
// no runner-up.
type termView struct {
	Name         string   `json:"name"`
	Weight       float64  `json:"weight"`
	Value        float64  `json:"value"`
	Contribution float64  `json:"contribution"`
	OtherValue   *float64 `json:"runnerUpValue"`
	Other        *float64 `json:"runnerUpContribution"`
	// Share of the difference in score; null without a difference.
	Share *float64 `json:"share"`
}

type emptiesView struct {
	KeptBack bool         `json:"keptBack"`
	Why      string       `json:"why"`
	By       string       `json:"by,omitempty"`
	Wanted   []wantedView `json:"wanted,omitempty"`
}

type wantedView struct {
	Dimension string  `json:"dimension"`
	Volume    float64 `json:"volume"`
	Arrived   float64 `json:"arrived"`
	Target    float64 `json:"target"`
	Open      float64 `json:"open"`
}

// OfItem gives names to the explanation of a replay.
func OfItem(t *trace.Trace, found compare.Found, opt cerebro.Options, e *cerebro.Explanation) *Item {
	v := &Item{
		Trace: t.Name, Request: t.Requests[e.Request].Name, Item: e.Item, Time: e.Time,
		Order: opt.Order, Seed: opt.Seed, decision: decisionOf(t.Instance, e),
	}
	v.Policy, v.File, v.Knowledge = found.Name, cmp.Or(found.File, v.File), found.Policy.Knowledge().String()
	app := t.Instance.Apps[e.App]
	v.Rejected = rejectionsOf(t.Instance, app, e.Rejected)
	for _, i := range app.Types {
		v.Types = append(v.Types, t.Instance.Types[i])
	}
	return v
}

func decisionOf(inst *binpack.Instance, e *cerebro.Explanation) decision {
	app := inst.Apps[e.App]
	group := inst.Groups[app.Group]
	v := decision{
		App: app.Name, Group: group.Name, Limit: group.Limit, SpreadMin: group.SpreadMin,
		Types: []string{}, Rules: []ruleView{}, Terms: []termView{}, Rejected: []rejection{},
		Fleet: inst.Fleet.String(), InUse: e.Machines, Offered: e.Offered,
		Candidates: e.Candidates, Tied: e.Tied, Fallback: e.Fallback,
	}
	for d, need := range app.Demand {
		if need > 0 {
			v.Demand = append(v.Demand, amountView{inst.Dimensions[d].Name, trace.FormatAmount(need, inst.Dimensions[d])})
		}
	}
	if z := group.Zone; z != (binpack.ZoneLimits{}) {
		v.Zone = &zoneView{z.Limit, z.SpreadMin, z.Skew}
	}
	for scope, rules := range [][]binpack.Rule{inst.Rules, inst.ZoneRules} {
		for i := range rules {
			if r := &rules[i]; r.A == app.Group || r.B == app.Group {
				v.Rules = append(v.Rules, ruleOf(inst, r, scope == 1))
			}
		}
	}
	if e.Choice != nil {
		v.File = e.Choice.Name
	}
	v.Chosen, v.RunnerUp = choiceOf(inst, app, e.Chosen), choiceOf(inst, app, e.RunnerUp)
	v.Preferences = preferencesOf(inst, &app, e.Preferences)
	v.Terms = append(v.Terms, termsOf(e.Chosen, e.RunnerUp)...)
	if e.Fleet != nil {
		v.Empties = &emptiesView{KeptBack: e.Fleet.KeptBack, Why: e.Fleet.Why, By: e.Fleet.By}
		for d, w := range e.Fleet.Wanted {
			v.Empties.Wanted = append(v.Empties.Wanted, wantedView{inst.Dimensions[d].Name, w.Volume, w.Arrived, w.Target, w.Open})
		}
	}
	return v
}

// rejectionsOf gives names to reasons, in the order in which they are checked.
func rejectionsOf(inst *binpack.Instance, app binpack.App, counts map[binpack.Reason]int) []rejection {
	reasons := make([]binpack.Reason, 0, len(counts))
	for r := range counts {
		reasons = append(reasons, r)
	}
	slices.SortFunc(reasons, func(a, b binpack.Reason) int {
		return cmp.Or(cmp.Compare(zoneLast(a), zoneLast(b)), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Index, b.Index))
	})
	list := []rejection{}
	for _, r := range reasons {
		name, what := reasonText(inst, app, r)
		list = append(list, rejection{name, what, counts[r]})
	}
	return list
}

func zoneLast(r binpack.Reason) int {
	if r.Zone {
		return 1
	}
	return 0
}

// zoneReason is reasonText for reasons by zone.
func zoneReason(inst *binpack.Instance, group *binpack.Group, r binpack.Reason) (name, what string) {
	switch r.Kind {
	case binpack.NoZone:
		return "no zone", fmt.Sprintf("the machine has no zone, and %s has a limit by zone", group.Name)
	case binpack.LimitReached:
		return "zone limit", fmt.Sprintf("%d of %s are in the zone", group.Zone.Limit, group.Name)
	case binpack.RuleForbids:
		return "zone rule", ruleText(ruleOf(inst, &inst.ZoneRules[r.Index], true))
	case binpack.Uneven:
		return "zone skew", fmt.Sprintf("the zone would hold more than %d of %s beyond another zone", group.Zone.Skew, group.Name)
	default:
		return "zone spread", fmt.Sprintf("%s has one in the zone and is in fewer than %d zones", group.Name, group.Zone.SpreadMin)
	}
}

func ruleOf(inst *binpack.Instance, r *binpack.Rule, byZone bool) ruleView {
	return ruleView{inst.Groups[r.A].Name, inst.Groups[r.B].Name, r.Max, byZone}
}

func reasonText(inst *binpack.Instance, app binpack.App, r binpack.Reason) (name, what string) {
	group := inst.Groups[app.Group]
	if r.Zone {
		return zoneReason(inst, &group, r)
	}
	switch r.Kind {
	case binpack.TooSmall:
		name := inst.Dimensions[r.Index].Name
		if app.Demand[r.Index] == 0 {
			return "capacity", "more " + name + " is requested than there is: Sigma places nothing there, also what asks for none"
		}
		return "capacity", "too little " + name + " is free"
	case binpack.NoDevice:
		return "devices", "no " + inst.Dimensions[r.Index].Name + " has the share free"
	case binpack.WrongType:
		return "type", "the app may not use the machine's type"
	case binpack.LimitReached:
		return "limit", fmt.Sprintf("%d of %s are there", group.Limit, group.Name)
	case binpack.RuleForbids:
		return "rule", ruleText(ruleOf(inst, &inst.Rules[r.Index], false))
	default:
		return "spread", fmt.Sprintf("%s has one there and is on fewer than %d machines", group.Name, group.SpreadMin)
	}
}

func ruleText(r ruleView) string {
	where := ""
	if r.ByZone {
		where = " in a zone"
	}
	if r.Max == 0 {
		return fmt.Sprintf("no %s beside %s%s", r.Other, r.App, where)
	}
	return fmt.Sprintf("at most %d of %s beside %s%s", r.Max, r.Other, r.App, where)
}

func choiceOf(inst *binpack.Instance, app binpack.App, c *binpack.Candidate) *choiceView {
	if c == nil {
		return nil
	}
	v := &choiceView{Machine: trace.MachineName(inst, c.Line, c.Index), Items: c.Items, Score: c.Score}
	for d, need := range app.Demand {
		if need > 0 {
			v.Free = append(v.Free, amountView{inst.Dimensions[d].Name, trace.FormatAmount(c.Free[d], inst.Dimensions[d])})
		}
	}
	return v
}

func termsOf(chosen, other *binpack.Candidate) []termView {
	if chosen == nil {
		return nil
	}
	var list []termView
	for i, term := range chosen.Terms {
		v := termView{Name: term.Name, Weight: term.Weight, Value: term.Value, Contribution: term.Contribution}
		if other != nil && i < len(other.Terms) {
			second := other.Terms[i]
			v.OtherValue, v.Other = &second.Value, &second.Contribution
			if gain := chosen.Score - other.Score; gain != 0 {
				share := (term.Contribution - second.Contribution) / gain
				v.Share = &share
			}
		}
		list = append(list, v)
	}
	return list
}
