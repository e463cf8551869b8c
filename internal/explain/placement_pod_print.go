package explain

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// Print writes the explanation for people.
func (v *Pod) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("pod", "%s, %s", v.Pod, v.stateText())
	line("decided", "%s", v.decidedText())
	v.about(line)
	line("fleet", "%s, %d of %s in use", v.Fleet, v.InUse, plural.Of(v.Offered, "node"))
	v.printRejected(w, "nodes")
	fmt.Fprintln(w, "a node counts once, by the first reason in the order capacity, selector or condition, limit, rules, spread")
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
	if err := v.printEmpties(out); err != nil {
		return err
	}
	if v.Next != "" {
		fmt.Fprintln(out, "\nnext: "+v.Next)
	}
	return nil
}

func (v *Pod) stateText() string {
	switch {
	case v.Log != nil:
		return "went to " + v.Node
	case v.Node == "":
		return "waits for a node"
	}
	return "stands on " + v.Node
}

func (v *Pod) decidedText() string {
	switch {
	case v.Log != nil:
		return fmt.Sprintf("at %s (line %d of %s), mode %s, cause %s", v.Time, v.Line, cmp.Or(v.LogFile, "the log"), cmp.Or(v.Mode, "none"), v.Log.Cause)
	case v.Node == "":
		return "as it would be now"
	}
	return "as if the pod arrived now"
}

// podRemarks returns sentences about the decision. Positions are in the order of names.
func (v *Pod) podRemarks() []string {
	var list []string
	for _, text := range v.remarks() {
		list = append(list, strings.NewReplacer("the item", "the pod", "machine", "node", "the lowest position goes first", "the first by name is taken").Replace(text))
	}
	switch {
	case v.Elapsed != nil:
		list = append(list, fmt.Sprintf("%.0f %% of the workload's window has passed.", 100**v.Elapsed))
	case v.NoWindow != "":
		list = append(list, fmt.Sprintf("No window of the workload is in force, so %s takes the place of %s, which reads a clock.", v.Policy, v.NoWindow))
	}
	if v.Log != nil {
		return append(list, v.logRemarks()...)
	}
	if v.NoPolicy {
		list = append(list, "The cluster has no PlacementPolicy: "+v.Policy+", the default score of kube-scheduler, ranks the nodes that its filters admit.")
	}
	if v.Larger != "" {
		list = append(list, "The pod is larger than any node: "+v.Larger+".")
	}
	if n := len(v.Holders); n > 0 {
		var of []string
		for _, h := range v.Holders[:min(most, n)] {
			of = append(of, fmt.Sprintf("%s (%s, on %s)", h.Pod, h.Amount, h.Node))
		}
		if n > most {
			of = append(of, plural.Of(n-most, "other pod"))
		}
		list = append(list, "Pods hold "+v.Holders[0].Resource+": "+strings.Join(of, ", ")+".")
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
		list = append(list, fmt.Sprintf("It stands on %s; no node would take it now.", v.Node))
	case len(v.Gates) > 0:
		list = append(list, "It waits for its scheduling gates, and no scheduler tries it before: "+strings.Join(v.Gates, ", ")+".")
	case v.Waits != "":
		list = append(list, "It waits. Its scheduler says: "+v.Waits)
	default:
		list = append(list, "It waits, and no scheduler has said why: either none has tried it yet, or no running scheduler has its schedulerName.")
	}
	if len(v.Filters) > 0 {
		list = append(list, "The scheduler's filters also check, and this does not: "+strings.Join(v.Filters, ", ")+".")
	}
	return list
}

// logRemarks compares the explanation with the log.
func (v *Pod) logRemarks() []string {
	first := cmp.Or(v.Log.Choice, v.Node)
	var list []string
	if v.Log.Cause == ledger.CauseNoWindow {
		list = append(list, "The policy in force reads a clock, and no window of the workload was in force: the policy for that case ranked the nodes.")
	}
	switch {
	case v.Log.Cause == ledger.CauseSingle:
		list = append(list, "Only one node was feasible, so no policy was asked: this is how it would have ranked the nodes that the packing model allows.")
	case v.Log.Cause == ledger.CauseNominated:
		list = append(list, "The pod's status named the node, which is tried first, so no policy was asked: preemption had made room there, or the pod had it at an earlier attempt. This is how the policy would have ranked the nodes.")
	case v.Log.Cause == ledger.CausePlanned:
		list = append(list, "Room was reserved there for a pod of its workload, so no policy was asked. This is how the policy would have ranked the nodes.")
	case v.Log.Cause == ledger.CauseNeutral:
		list = append(list, "The policy does not decide on this workload; its scores are shown as if it did.")
	case v.Chosen != nil && v.Chosen.Machine != first:
		list = append(list, fmt.Sprintf("The log has %s as the choice; the choice computed here is %s.", first, v.Chosen.Machine))
	}
	if v.Log.Choice != "" && v.Log.Choice != v.Node {
		list = append(list, fmt.Sprintf("The choice was %s; the pod went to %s, since the policy only watched or other scores outvoted it.", v.Log.Choice, v.Node))
	}
	return list
}
