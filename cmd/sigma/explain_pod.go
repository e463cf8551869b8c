package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

// A podExplanation is what explain prints of a pod.
type podExplanation struct {
	Pod      string           `json:"pod"`
	Node     string           `json:"node"` // where it stands, or went; empty = it waits
	Waits    string           `json:"waits,omitempty"`
	Log      *ledger.Decision `json:"log,omitempty"`
	Line     int              `json:"line,omitempty"`
	Time     string           `json:"time,omitempty"`
	Mode     string           `json:"mode,omitempty"` // of the policy
	Filters  []string         `json:"filters,omitempty"`
	Compared int              `json:"compared"` // candidates: in an open fleet one empty node of each kind
	decision
}

func (a *app) explainPod(cmd *cobra.Command, f *explainFlags) error {
	for _, name := range []string{"trace", "request", "item", "order", "retry", "repack"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s does not go with --pod", name)
		}
	}
	if namespace, name, ok := strings.Cut(f.pod, "/"); !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return usagef("--pod %q: want namespace/name", f.pod)
	}
	if err := oneOf("format", f.format, "table", "json"); err != nil {
		return err
	}
	catalog, err := f.choice.catalog(f.options.Seed)
	if err != nil {
		return err
	}
	if f.name == compare.Current {
		return usagef("the policy %s decides nothing: it repeats what was", compare.Current)
	}
	if f.name != "" {
		if err := checkPolicies(&catalog, f.name); err != nil {
			return err
		}
	}
	q, found, err := f.question(cmd.Context(), &catalog)
	if err != nil {
		return err
	}
	e, err := judge(q, found.Policy)
	if err != nil {
		return err
	}
	v := podViewOf(q, found, e)
	if f.format == "json" {
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(v)
	}
	return v.print(a.stdout)
}

// question is what is to be decided, and the policy that is asked.
func (f *explainFlags) question(ctx context.Context, catalog *compare.Catalog) (*snapshot.Question, compare.Found, error) {
	if f.log != "" {
		q, err := snapshot.AskLog(f.log, f.pod)
		if err != nil {
			return nil, compare.Found{}, err
		}
		found, err := f.logged(q, catalog)
		return q, found, err
	}
	client, err := f.cluster.connect()
	if err != nil {
		return nil, compare.Found{}, err
	}
	picture, err := client.Read(ctx)
	if err != nil {
		return nil, compare.Found{}, err
	}
	q, err := picture.Ask(f.pod, f.cluster.appLabel, f.cluster.fleet)
	if err != nil {
		return nil, compare.Found{}, err
	}
	if f.name != "" {
		found, err := find(catalog, f.name, q)
		return q, found, err
	}
	object, err := client.Policy(ctx, f.policyName)
	if err != nil {
		return nil, compare.Found{}, err
	}
	found, err := foundObject(object, q)
	return q, found, err
}

// logged is the policy that a decision of a log was made by.
func (f *explainFlags) logged(q *snapshot.Question, catalog *compare.Catalog) (compare.Found, error) {
	switch {
	case f.name != "":
		return find(catalog, f.name, q)
	case q.Object == nil || strings.HasPrefix(q.Decision.Cause, ledger.CauseFallback):
		return compare.Found{Policy: rule.Fallback{}, Name: "bestfit"}, nil
	}
	return foundObject(q.Object, q)
}

func foundObject(object *policy.Object, q *snapshot.Question) (compare.Found, error) {
	if err := object.Spec.Suits(q.State.Columns().Instance()); err != nil {
		return compare.Found{}, fmt.Errorf("policy %s: %w", object.Metadata.Name, err)
	}
	p, err := object.Policy()
	return compare.Found{Policy: p, Name: object.Metadata.Name, Object: object}, err
}

// find finds a policy by its name on the command line; what ships is chosen for the
// cluster as it would be for a trace of it.
func find(catalog *compare.Catalog, name string, q *snapshot.Question) (compare.Found, error) {
	state := q.State.Columns()
	inst := *state.Instance()
	inst.Apps = slices.Clone(inst.Apps)
	for i, n := range state.Known.Expected {
		inst.Apps[i].Expected = n
	}
	return catalog.Find(name, &trace.Trace{Name: "the cluster", Instance: &inst})
}

// judge asks a policy about a pod, as a scheduler would.
func judge(q *snapshot.Question, p binpack.Policy) (*cerebro.Explanation, error) {
	app, state := q.State.AppIndex(q.App), q.State.Columns()
	ranking, err := q.State.Explain(p, app, q.Allowed)
	if err != nil {
		return nil, err
	}
	return &cerebro.Explanation{App: app, Machines: state.Active(), Offered: state.Size(), Explanation: ranking}, nil
}

func podViewOf(q *snapshot.Question, found compare.Found, e *cerebro.Explanation) *podExplanation {
	v := &podExplanation{
		Pod: q.Pod, Node: q.Node, Waits: q.Waits, Log: q.Decision, Line: q.Line, Filters: q.Beyond,
		Compared: e.Candidates, decision: decisionOf(q.State.Columns().Instance(), e),
	}
	v.Candidates = len(q.Allowed)
	v.Policy, v.File, v.Knowledge = found.Name, found.File, found.Policy.Knowledge().String()
	v.Rejected = podRejections(q)
	if q.Decision != nil {
		v.Time, v.Mode = time.UnixMicro(int64(q.Time*1e6)).UTC().Format(time.RFC3339), q.Decision.Mode
	} else if found.Object != nil {
		v.Mode = cmp.Or(found.Object.Spec.Mode, "live")
	}
	return v
}

// podRejections counts the nodes that do not take a pod, by the first reason: those
// of the packing model, then those of filters.
func podRejections(q *snapshot.Question) []rejection {
	state := q.State.Columns()
	inst := state.Instance()
	app := q.State.AppIndex(q.App)
	counts := map[binpack.Reason]int{}
	closed, unready := map[string]int{}, map[string]int{}
	elsewhere := 0
	for m := range int32(state.Size()) {
		if slices.Contains(q.Allowed, m) {
			continue
		}
		name := q.State.NodeName(m)
		why := state.Why(app, m)
		switch taint := q.Unready[name]; {
		case why.Kind == binpack.Accepted && taint != "":
			unready["the node has the taint "+taint]++
		case why.Kind == binpack.Accepted:
			elsewhere++
		case why.Kind == binpack.WrongType:
			closed[cmp.Or(q.Refusal(name), "taints, or the pod's node selector or affinity")]++
		default:
			counts[why]++
		}
	}
	list := rejectionsOf(inst, inst.Apps[app], counts)
	add := func(reason string, counts map[string]int) {
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			list = append(list, rejection{reason, what, counts[what]})
		}
	}
	add("selector", closed)
	add("condition", unready)
	if elsewhere > 0 {
		list = append(list, rejection{"filters", "the scheduler's other filters refused the node", elsewhere})
	}
	if len(q.Cordoned) > 0 {
		list = append(list, rejection{"cordoned", strings.Join(q.Cordoned[:min(most, len(q.Cordoned))], ", "), len(q.Cordoned)})
	}
	return list
}

// print writes the explanation for people.
func (v *podExplanation) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("pod", "%s, %s", v.Pod, v.stateText())
	line("decided", "%s", v.decidedText())
	v.about(line)
	line("fleet", "%s, %d of %d nodes in use", v.Fleet, v.InUse, v.Offered)
	v.printRejected(w, "nodes")
	fmt.Fprintln(w, "a node counts once, by the first reason in the order capacity, selector, limit, rules, spread, condition")
	if v.Compared < v.Candidates {
		fmt.Fprintf(w, "compared\t%d\tof empty nodes that are alike the first only: the fleet is open\n", v.Compared)
	}
	v.printChoice(w, "node")
	if err := w.Flush(); err != nil {
		return err
	}
	for _, text := range v.podRemarks() {
		fmt.Fprintln(out, "\n"+text)
	}
	return v.printEmpties(out)
}

func (v *podExplanation) stateText() string {
	switch {
	case v.Log != nil:
		return "went to " + v.Node
	case v.Node == "":
		return "waits for a node"
	}
	return "stands on " + v.Node
}

func (v *podExplanation) decidedText() string {
	switch {
	case v.Log != nil:
		return fmt.Sprintf("at %s (line %d of the log), mode %s, cause %s", v.Time, v.Line, cmp.Or(v.Mode, "none"), v.Log.Cause)
	case v.Node == "":
		return "as it would be now"
	}
	return "as it would be now if the pod were not there and came anew"
}

// podRemarks are sentences about the decision.
func (v *podExplanation) podRemarks() []string {
	var list []string
	for _, text := range v.remarks() {
		list = append(list, strings.NewReplacer("the item", "the pod", "machine", "node").Replace(text))
	}
	if v.Log != nil {
		return append(list, v.logRemarks()...)
	}
	switch v.Mode {
	case "shadow":
		list = append(list, "The policy is in shadow: it only watches, and Best-Fit or the scheduler's other scores decide.")
	case "canary":
		list = append(list, "The policy is a canary: it decides for a share of the workloads.")
	}
	switch {
	case v.Node != "" && v.Chosen != nil && v.Chosen.Machine == v.Node:
		list = append(list, "It stands where the policy would put it.")
	case v.Node != "" && v.Chosen != nil:
		list = append(list, fmt.Sprintf("It stands on %s, and would go to %s now.", v.Node, v.Chosen.Machine))
	case v.Node != "":
		list = append(list, fmt.Sprintf("It stands on %s, and could come anew to no node now.", v.Node))
	case v.Waits != "":
		list = append(list, "It waits. Its scheduler says: "+v.Waits)
	default:
		list = append(list, "It waits, and no scheduler has said why: either none looked at it yet, or its schedulerName is that of none that runs.")
	}
	if len(v.Filters) > 0 {
		list = append(list, "Not looked at here, but by the scheduler's filters: "+strings.Join(v.Filters, ", ")+".")
	}
	return list
}

// logRemarks compare with what the log has.
func (v *podExplanation) logRemarks() []string {
	first := cmp.Or(v.Log.Choice, v.Node)
	var list []string
	switch {
	case v.Log.Cause == ledger.CauseSingle:
		list = append(list, "One node was feasible to the scheduler, and no policy was asked: this is what it would have said of the nodes that the packing model allows.")
	case v.Log.Cause == ledger.CauseNominated:
		list = append(list, "Preemption had made room on the node, and no policy was asked: this is what it would have said.")
	case v.Log.Cause == ledger.CauseNeutral:
		list = append(list, "The policy does not decide on this workload; its scores are what they would have been.")
	case v.Chosen != nil && v.Chosen.Machine != first:
		list = append(list, fmt.Sprintf("The log has %s as the choice, and %s is computed here.", first, v.Chosen.Machine))
	}
	if v.Log.Choice != "" && v.Log.Choice != v.Node {
		list = append(list, fmt.Sprintf("The choice was %s; the pod went to %s, since the policy only watched or other scores outvoted it.", v.Log.Choice, v.Node))
	}
	return list
}
