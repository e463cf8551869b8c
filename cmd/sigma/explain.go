package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
)

// explainFlags are the flags of explain.
type explainFlags struct {
	path, name, request, format string
	item                        int32
	repack                      bool
	options                     cerebro.Options
	choice                      policyFlags

	pod, policyName, log string
	cluster              clusterFlags
}

func (a *app) explain() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain --trace DIR --policy P --request R | --pod NAMESPACE/NAME",
		Short: "Say why an item or a pod went where it did, or why it was left out",
		Long: `With --trace, explain replays a trace up to an item of a request and prints what the policy
saw then: what each constraint rejected, the machine it chose and the one that
came second, and how much each part of the score had to do with it. With the
flags of a replay it explains that replay.

A machine that does not take the item is counted once, by the first of these
that stands in the way: capacity (dimension by dimension), devices, type, limit,
each rule, spread.

With --pod, explain reads a cluster as "sigma snapshot" does and says where the pod
would go now: for one that waits why it does, for one that stands as if it came
anew. The policy is the PlacementPolicy named by --policy-name, or the one given by
--policy. With --log it is the pod's latest decision in a scheduler's decision log,
with the state and the policy of that moment.

` + policiesHelp,
		Example: `  sigma explain --trace small-1 --policy learned --request r00003
  sigma explain --trace small-1 --policy bestfit --request r00003 --item 2 --order 1 --seed 7 --format json
  sigma explain --pod shop/web-7bfdcd89cf-77xgr
  sigma explain --pod shop/web-7bfdcd89cf-77xgr --policy bestfit
  sigma explain --pod shop/web-7bfdcd89cf-77xgr --log decisions.jsonl`,
		Args: noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("pod") {
				return a.explainPod(cmd, &f)
			}
			for _, name := range []string{"log", "kubeconfig", "context", "policy-name"} {
				if cmd.Flags().Changed(name) {
					return usagef("--%s needs --pod", name)
				}
			}
			if err := required(cmd, "trace", "policy", "request"); err != nil {
				return err
			}
			return a.explainTo(cmd.Context(), f)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.path, "trace", "", "trace: a folder or a .tar.gz file")
	flags.StringVar(&f.name, "policy", "", "placement policy: a name or a policy file")
	flags.StringVar(&f.request, "request", "", "request, as events.csv names it")
	flags.Int32Var(&f.item, "item", 0, "item of the request, from 0")
	flags.IntVar(&f.options.Order, "order", 0, "order of arrival: 0 = the file's, i = the i-th shuffle of --seed")
	flags.Uint64Var(&f.options.Seed, "seed", 1, "of shuffles and random ties")
	flags.BoolVar(&f.options.Retry, "retry", false, "the replay tries items that were left out again after each delete; the first try is explained")
	flags.StringVar(&f.format, "format", "table", "table or json")
	flags.BoolVar(&f.repack, "repack", false, "the replay places what placed.csv holds anew")
	f.choice.add(flags)
	flags.StringVar(&f.pod, "pod", "", "pod of a cluster, as namespace/name")
	flags.StringVar(&f.policyName, "policy-name", "general", "PlacementPolicy of the cluster that explains --pod")
	flags.StringVar(&f.log, "log", "", "decision log that holds the decision on --pod")
	f.cluster.add(flags)
	return cmd
}

func (a *app) explainTo(ctx context.Context, f explainFlags) error {
	if err := oneOf("format", f.format, "table", "json"); err != nil {
		return err
	}
	if f.options.Order < 0 {
		return usagef("--order %d: want 0 (the file's) or a positive number", f.options.Order)
	}
	catalog, err := f.choice.catalog(f.options.Seed)
	if err != nil {
		return err
	}
	if err := checkPolicies(&catalog, f.name); err != nil {
		return err
	}
	t, err := loadTrace(f.path)
	if err != nil {
		return err
	}
	found, err := catalog.Find(f.name, t)
	if err != nil {
		return err
	}
	if f.name == compare.Current {
		return usagef("the policy %s decides nothing: it repeats what was", compare.Current)
	}
	if f.repack {
		t = t.Anew()
	}
	request := slices.IndexFunc(t.Requests, func(q trace.Request) bool { return q.Name == f.request })
	if request < 0 {
		return usagef("unknown request %q in trace %s%s", f.request, t.Name, didYouMean(f.request, t.Requests))
	}
	if n := t.Requests[request].Count; f.item < 0 || f.item >= n {
		return usagef("request %q has the items 0 to %d, not %d", f.request, n-1, f.item)
	}
	f.options.Fallback = rule.Fallback{}
	var e *cerebro.Explanation
	err = until(ctx, func() (err error) {
		e, err = cerebro.NewReplayer(t).Explain(found.Policy, f.options, int32(request), f.item)
		return err
	})
	if err != nil {
		return err
	}
	view := viewOf(t, found, f.options, e)
	if f.format == "json" {
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(view)
	}
	return view.print(a.stdout)
}

// didYouMean names the requests whose names are closest.
func didYouMean(name string, requests []trace.Request) string {
	const most = 5
	type close struct {
		name     string
		distance int
	}
	var list []close
	limit := max(2, len(name)/3)
	for _, q := range requests {
		if d := distance(name, q.Name); d <= limit {
			list = append(list, close{q.Name, d})
		}
	}
	if len(list) == 0 {
		if len(requests) == 0 {
			return "; it has none"
		}
		return fmt.Sprintf("; it has %d, from %s to %s", len(requests), requests[0].Name, requests[len(requests)-1].Name)
	}
	slices.SortStableFunc(list, func(a, b close) int { return cmp.Compare(a.distance, b.distance) })
	var names []string
	for _, c := range list[:min(most, len(list))] {
		names = append(names, c.name)
	}
	return "; close to it are " + strings.Join(names, ", ")
}

// distance is the number of letters to add, drop or change (Levenshtein 1966).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// An explanation is what explain prints, with names in place of indices.
type explanation struct {
	Trace   string  `json:"trace"`
	Request string  `json:"request"`
	Item    int32   `json:"item"`
	Time    float64 `json:"time"`
	Order   int     `json:"order"`
	Seed    uint64  `json:"seed"`
	decision
}

// A decision is what is the same for an item of a trace and a pod of a cluster.
type decision struct {
	Policy     string       `json:"policy"`
	File       string       `json:"file,omitempty"` // shipped file that serves
	Knowledge  string       `json:"knowledge"`
	App        string       `json:"app"`
	Group      string       `json:"group"`
	Demand     []amountView `json:"demand"`
	Limit      int32        `json:"limit"`     // items of the group per machine, 0 = none
	SpreadMin  int32        `json:"spreadMin"` // machines before any takes a second, 0 = none
	Types      []string     `json:"types"`     // empty = all
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
}

type amountView struct {
	Dimension string `json:"dimension"`
	Amount    string `json:"amount"`
}

type ruleView struct {
	App   string `json:"app"`
	Other string `json:"other"`
	Max   int32  `json:"max"`
}

type rejection struct {
	Reason   string `json:"reason"` // capacity, devices, type, limit, rule, spread
	What     string `json:"what"`
	Machines int    `json:"machines"`
}

type choiceView struct {
	Machine string       `json:"machine"`
	Items   int32        `json:"items"`
	Free    []amountView `json:"free"` // of what the item needs
	Score   float64      `json:"score"`
}

// A termView is a part of the score; numbers of the runner-up are null when
// there is none.
type termView struct {
	Name         string   `json:"name"`
	Weight       float64  `json:"weight"`
	Value        float64  `json:"value"`
	Contribution float64  `json:"contribution"`
	OtherValue   *float64 `json:"runnerUpValue"`
	Other        *float64 `json:"runnerUpContribution"`
	// Share of the difference in score; null where there is none.
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

func viewOf(t *trace.Trace, found compare.Found, opt cerebro.Options, e *cerebro.Explanation) *explanation {
	v := &explanation{
		Trace: t.Name, Request: t.Requests[e.Request].Name, Item: e.Item, Time: e.Time,
		Order: opt.Order, Seed: opt.Seed, decision: decisionOf(t.Instance, e),
	}
	v.Policy, v.File, v.Knowledge = found.Name, found.File, found.Policy.Knowledge().String()
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
			v.Demand = append(v.Demand, amountView{inst.Dimensions[d].Name, amount(need, inst.Dimensions[d])})
		}
	}
	for _, r := range inst.Rules {
		if r.A == app.Group || r.B == app.Group {
			v.Rules = append(v.Rules, ruleView{inst.Groups[r.A].Name, inst.Groups[r.B].Name, r.Max})
		}
	}
	v.Chosen, v.RunnerUp = choiceOf(inst, app, e.Chosen), choiceOf(inst, app, e.RunnerUp)
	v.Terms = append(v.Terms, termsOf(e.Chosen, e.RunnerUp)...)
	if e.Fleet != nil {
		v.Empties = &emptiesView{KeptBack: e.Fleet.KeptBack, Why: e.Fleet.Why, By: e.Fleet.By}
		for d, w := range e.Fleet.Wanted {
			v.Empties.Wanted = append(v.Empties.Wanted, wantedView{inst.Dimensions[d].Name, w.Volume, w.Arrived, w.Target, w.Open})
		}
	}
	return v
}

// amount is a quantity as people write it.
func amount(value int64, dim binpack.Dimension) string {
	if dim.One == 1 && value >= 1<<20 {
		switch {
		case value&(1<<30-1) == 0:
			return fmt.Sprint(value>>30) + "Gi"
		case value&(1<<20-1) == 0:
			return fmt.Sprint(value>>20) + "Mi"
		}
	}
	return trace.FormatQuantity(value, dim)
}

// rejectionsOf puts names to reasons, in the order in which they are looked at.
func rejectionsOf(inst *binpack.Instance, app binpack.App, counts map[binpack.Reason]int) []rejection {
	reasons := make([]binpack.Reason, 0, len(counts))
	for r := range counts {
		reasons = append(reasons, r)
	}
	slices.SortFunc(reasons, func(a, b binpack.Reason) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Index, b.Index))
	})
	list := []rejection{}
	for _, r := range reasons {
		name, what := reasonText(inst, app, r)
		list = append(list, rejection{name, what, counts[r]})
	}
	return list
}

func reasonText(inst *binpack.Instance, app binpack.App, r binpack.Reason) (name, what string) {
	group := inst.Groups[app.Group]
	switch r.Kind {
	case binpack.TooSmall:
		return "capacity", "too little " + inst.Dimensions[r.Index].Name + " is free"
	case binpack.NoDevice:
		return "devices", "no " + inst.Dimensions[r.Index].Name + " has the share free"
	case binpack.WrongType:
		return "type", "the app may not use the machine's type"
	case binpack.LimitReached:
		return "limit", fmt.Sprintf("%d of %s are there", group.Limit, group.Name)
	case binpack.RuleForbids:
		rule := inst.Rules[r.Index]
		return "rule", ruleText(ruleView{inst.Groups[rule.A].Name, inst.Groups[rule.B].Name, rule.Max})
	default:
		return "spread", fmt.Sprintf("%s has one there and is on fewer than %d machines", group.Name, group.SpreadMin)
	}
}

func ruleText(r ruleView) string {
	if r.Max == 0 {
		return fmt.Sprintf("no %s beside %s", r.Other, r.App)
	}
	return fmt.Sprintf("at most %d of %s beside %s", r.Max, r.Other, r.App)
}

func choiceOf(inst *binpack.Instance, app binpack.App, c *binpack.Candidate) *choiceView {
	if c == nil {
		return nil
	}
	v := &choiceView{Machine: trace.MachineName(inst, c.Line, c.Index), Items: c.Items, Score: c.Score}
	for d, need := range app.Demand {
		if need > 0 {
			v.Free = append(v.Free, amountView{inst.Dimensions[d].Name, amount(c.Free[d], inst.Dimensions[d])})
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

// print writes the explanation for people.
func (v *explanation) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("request", "%s, item %d, at %g", v.Request, v.Item, v.Time)
	line("trace", "%s, %s", v.Trace, v.orderText())
	v.about(line)
	line("fleet", "%s, %d in use, %d on offer", v.Fleet, v.InUse, v.Offered)
	v.printRejected(w, "machines")
	fmt.Fprintln(w, "a machine counts once, by the first reason in the order capacity, devices, type, limit, rules, spread")
	v.printChoice(w, "machine")
	if err := w.Flush(); err != nil {
		return err
	}
	for _, text := range v.remarks() {
		fmt.Fprintln(out, "\n"+text)
	}
	return v.printEmpties(out)
}

// about prints what is decided, by whom, and within which limits.
func (v *decision) about(line func(name, format string, args ...any)) {
	line("policy", "%s", strings.Join(strings.Fields(v.Policy+" "+v.File+" "+v.Knowledge), "  "))
	line("app", "%s", v.appText())
	line("needs", "%s", amounts(v.Demand))
	line("limits", "%s", v.limitsText())
	line("rules", "%s", v.rulesText())
}

func (v *decision) printRejected(w io.Writer, machines string) {
	fmt.Fprintf(w, "\nrejected\t%s\twhy\n", machines)
	for _, r := range v.Rejected {
		fmt.Fprintf(w, "%s\t%d\t%s\n", r.Reason, r.Machines, r.What)
	}
	fmt.Fprintf(w, "take it\t%d\n", v.Candidates)
}

func (v *explanation) orderText() string {
	if v.Order == 0 {
		return "the file's order"
	}
	return fmt.Sprintf("order %d of seed %d", v.Order, v.Seed)
}

func (v *decision) appText() string {
	if v.Group != v.App && v.Group != "" {
		return v.App + " of the group " + v.Group
	}
	return v.App
}

// most bounds the lists that are printed whole.
const most = 8

func amounts(list []amountView) string {
	var parts []string
	for i, a := range list {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(list)-most))
			break
		}
		parts = append(parts, a.Dimension+" "+a.Amount)
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}

func (v *decision) limitsText() string {
	var parts []string
	if v.Limit > 0 {
		parts = append(parts, fmt.Sprintf("%d per machine", v.Limit))
	}
	if v.SpreadMin > 1 {
		parts = append(parts, fmt.Sprintf("on %d machines before any takes a second", v.SpreadMin))
	}
	if len(v.Types) > 0 {
		parts = append(parts, "machines of type "+strings.Join(v.Types, " or "))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

func (v *decision) rulesText() string {
	var parts []string
	for i, r := range v.Rules {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(v.Rules)-most))
			break
		}
		parts = append(parts, ruleText(r))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// printChoice is the machines and the table of terms.
func (v *decision) printChoice(w io.Writer, machine string) {
	if v.Chosen == nil {
		return
	}
	fmt.Fprintf(w, "\n\t%s\tscore\titems\tfree before\n", machine)
	row := func(name string, c *choiceView) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", name, c.Machine, number(c.Score), c.Items, amounts(c.Free))
	}
	row("chosen", v.Chosen)
	if v.RunnerUp != nil {
		row("runner-up", v.RunnerUp)
	}
	if len(v.Terms) == 0 {
		return
	}
	if v.RunnerUp == nil {
		fmt.Fprintln(w, "\npart\tweight\tvalue\tcontribution")
	} else {
		fmt.Fprintln(w, "\npart\tweight\tchosen\trunner-up\tcontribution\trunner-up's\tshare of the difference")
	}
	for _, t := range v.Terms {
		if t.nothing() {
			continue
		}
		if v.RunnerUp == nil {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.Name, number(t.Weight), number(t.Value), number(t.Contribution))
			continue
		}
		share := "-"
		if t.Share != nil {
			share = strings.Replace(fmt.Sprintf("%.1f %%", 100**t.Share), "-0.0 ", "0.0 ", 1)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", t.Name, number(t.Weight), number(t.Value), number(*t.OtherValue),
			number(t.Contribution), number(*t.Other), share)
	}
	if v.RunnerUp == nil {
		fmt.Fprintf(w, "score\t\t\t%s\n", number(v.Chosen.Score))
	} else {
		fmt.Fprintf(w, "score\t\t\t\t%s\t%s\n", number(v.Chosen.Score), number(v.RunnerUp.Score))
	}
}

// nothing says that the term is 0 everywhere.
func (t *termView) nothing() bool {
	return t.Value == 0 && t.Contribution == 0 && (t.OtherValue == nil || *t.OtherValue == 0 && *t.Other == 0)
}

// number has five significant digits, and no sign of a zero.
func number(x float64) string {
	if math.Abs(x) < 1e-12 {
		return "0"
	}
	return fmt.Sprintf("%.5g", x)
}

// remarks are sentences about the decision.
func (v *decision) remarks() []string {
	var list []string
	if n := v.zeroTerms(); n > 0 {
		list = append(list, plural(n, "part")+" of the score not shown: 0 on these machines.")
	}
	switch {
	case v.Chosen == nil && v.Offered == 0:
		list = append(list, "Left out: there is no machine.")
	case v.Chosen == nil:
		list = append(list, "Left out: no machine takes the item.")
	case v.RunnerUp == nil:
		list = append(list, "Only this machine takes the item: the score decided nothing.")
	case v.Tied > 0:
		list = append(list, fmt.Sprintf("The tie-break decided: %s the same score, and the lowest position goes first.", others(v.Tied)))
	case v.drawn():
		list = append(list, "The tie-break decided: the whole scores are equal, and the draw of the seed is higher.")
	default:
		list = append(list, fmt.Sprintf("The score decided, by %s.", number(v.Chosen.Score-v.RunnerUp.Score)))
	}
	if v.Chosen != nil && len(v.Terms) == 0 {
		list = append(list, "The score of this policy has no parts; docs/policies.md has its formula.")
	}
	if v.Fallback {
		list = append(list, "The policy's score was not finite: Best-Fit decided, and its score is shown.")
	}
	return list
}

// drawn says that the scores differ by the draw of upstream's strategies only.
func (v *decision) drawn() bool {
	for _, t := range v.Terms {
		if (t.Contribution == *t.Other) == (t.Name == rule.RandomTie) {
			return false
		}
	}
	return len(v.Terms) > 0 && v.Terms[len(v.Terms)-1].Name == rule.RandomTie
}

func others(n int) string {
	if n == 1 {
		return "another candidate has"
	}
	return fmt.Sprintf("%d other candidates have", n)
}

func (v *decision) zeroTerms() int {
	n := 0
	for _, t := range v.Terms {
		if t.nothing() && t.Name != "kept back" && t.Name != "empty: last" {
			n++
		}
	}
	return n
}

// printEmpties says whether empty machines were kept back.
func (v *decision) printEmpties(out io.Writer) error {
	if v.Empties == nil {
		return nil
	}
	state := "not kept back"
	if v.Empties.KeptBack {
		state = "kept back"
	}
	fmt.Fprintf(out, "\nempty machines: %s; %s\n", state, v.Empties.Why)
	if len(v.Empties.Wanted) == 0 {
		return nil
	}
	fmt.Fprintf(out, "the volume is estimated by %s; in machines of the largest capacity:\n", v.Empties.By)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "dimension\tvolume in all\tof it arrived\twanted open by now\topen")
	for _, d := range v.Empties.Wanted {
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.2f\n", d.Dimension, d.Volume, d.Arrived, d.Target, d.Open)
	}
	return w.Flush()
}
