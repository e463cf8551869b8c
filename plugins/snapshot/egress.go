package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

const (
	egress = podspec.EgressDimension
	// mostNamed bounds the names in a note.
	mostNamed = 8
)

// Egress holds data on traffic in addition to annotations and requests.
type Egress struct {
	Uplink int64   // of nodes that declare none, in bits a second; 0 = each node has to declare it
	Share  float64 // share of its uplink that the pods of a node may use together
	// Seen is the measured traffic of pods, by namespace/name, in bits a second; nil = not measured.
	Seen map[string]float64
}

// AddEgress adds the dimension egress to the trace of a picture. A pod's request of
// [podspec.EgressResource] precedes its annotation, and both precede the mean traffic of the pods of its
// group. The notes list the groups without any of these, which count as 0, and the
// adjustments.
func (p *Picture) AddEgress(t *trace.Trace, appLabel string, e Egress) (notes []string, err error) {
	sends, notes, err := p.sends(appLabel, e.Seen)
	if err != nil {
		return nil, err
	}
	in := t.Instance
	asked := slices.IndexFunc(in.Dimensions, func(d binpack.Dimension) bool { return d.Name == podspec.EgressResource })
	if slices.ContainsFunc(in.Dimensions, func(d binpack.Dimension) bool { return d.Name == egress }) {
		return nil, fmt.Errorf("the cluster has a resource %s of its own", egress)
	}
	d := asked
	if asked < 0 {
		d = len(in.Dimensions)
		in.Dimensions = append(in.Dimensions, binpack.Dimension{})
	}
	in.Dimensions[d] = binpack.Dimension{Name: egress, One: 1}
	set := func(amounts []int64, value int64) []int64 {
		amounts = slices.Clone(amounts)
		if asked < 0 {
			return append(amounts, value)
		}
		amounts[d] = value
		return amounts
	}
	nodes := map[string]*v1.Node{}
	for _, n := range p.Nodes {
		nodes[n.Name] = n
	}
	fixed, more, err := p.fixedSends(appLabel, e.Seen)
	if err != nil {
		return nil, err
	}
	notes = append(notes, more...)
	most := map[int32]int64{} // by type: cordoned nodes take no pods
	var without []string
	for i := range in.Machines {
		m := &in.Machines[i]
		n := nodes[m.Name]
		limit, err := e.limit(n)
		if err != nil {
			return nil, err
		}
		switch _, ok := n.Status.Allocatable[podspec.EgressResource]; {
		case asked < 0:
			limit = max(0, limit-fixed[m.Name])
		case ok:
			limit = m.Capacity[d] * podspec.EgressUnit // minus the requests of immovable pods
		default:
			without = append(without, n.Name)
		}
		m.Capacity = set(m.Capacity, limit)
		most[m.Type] = max(most[m.Type], limit)
	}
	if len(without) > 0 {
		return nil, fmt.Errorf("pods ask for %s, and go to none of the nodes without it: %s; give it to all nodes, or leave --egress out", podspec.EgressResource, listed(without))
	}
	var silent, cut []string
	for i := range in.Apps {
		a, group := &in.Apps[i], in.Groups[in.Apps[i].Group].Name
		bits, known := sends[group]
		if asked >= 0 && a.Demand[d] > 0 {
			bits, known = float64(a.Demand[d])*podspec.EgressUnit, true
		}
		if !known {
			silent = append(silent, group)
		}
		limit := int64(0)
		for t, n := range most {
			if a.Types == nil || slices.Contains(a.Types, t) {
				limit = max(limit, n)
			}
		}
		if bits > float64(limit) {
			cut = append(cut, fmt.Sprintf("%s (%s instead of %s)", group, bitsText(float64(limit)), bitsText(bits)))
			bits = float64(limit)
		}
		a.Demand = set(a.Demand, int64(math.Round(bits)))
	}
	if len(silent) > 0 {
		notes = append(notes, "nothing is known of what these send, and they count as 0: "+listed(silent))
	}
	if len(cut) > 0 {
		notes = append(notes, "one pod of these sends more than the pods of any of its nodes may, and counts as that: "+listed(cut))
	}
	if asked < 0 { // else its share of an uplink is unknown
		t.Source["egressShare"] = e.Share
	}
	return append(notes, raise(t, d)...), nil
}

// sends returns the traffic of one pod of each group, by its annotation or as measured.
func (p *Picture) sends(appLabel string, seen map[string]float64) (sends map[string]float64, notes []string, err error) {
	type sum struct{ bits, pods float64 }
	sums, declared := map[string]*sum{}, map[string]float64{}
	hosts := map[string]bool{}
	for _, pod := range p.Pods { // by age: the youngest one's annotation counts
		if !podspec.Moves(pod) {
			continue
		}
		group := podspec.Group(pod, appLabel)
		if text, ok := pod.Annotations[podspec.EgressAnnotation]; ok {
			bits, wrong := podspec.Egress(text)
			if wrong != nil {
				return nil, nil, fmt.Errorf("pod %s: the annotation %s: %w", nameOf(pod), podspec.EgressAnnotation, wrong)
			}
			declared[group] = float64(bits)
		}
		bits, ok := seen[nameOf(pod)]
		switch {
		case !ok:
		case pod.Spec.HostNetwork:
			hosts[group] = true
		default:
			s := sums[group]
			if s == nil {
				s = &sum{}
				sums[group] = s
			}
			s.bits, s.pods = s.bits+bits, s.pods+1
		}
	}
	sends = map[string]float64{}
	for group, s := range sums {
		sends[group] = s.bits / s.pods
	}
	maps.Copy(sends, declared)
	for group := range sends {
		delete(hosts, group)
	}
	if len(hosts) > 0 {
		notes = append(notes, "pods in the host's network are seen with all of their node's traffic, and count as 0: "+listed(slices.Collect(maps.Keys(hosts))))
	}
	return sends, notes, nil
}

// missent returns notes on annotations of traffic to other pods of which a part is ignored.
func (p *Picture) missent() (notes []string) {
	told := map[string]bool{}
	for _, pod := range p.Pods {
		text := pod.Annotations[podspec.SendsAnnotation]
		if _, err := podspec.Sends(pod); err != nil && !told[text] {
			told[text] = true
			notes = append(notes, fmt.Sprintf("the annotation %s of pod %s/%s: %v: that part is ignored", podspec.SendsAnnotation, pod.Namespace, pod.Name, err))
		}
	}
	return notes
}

// fixedSends returns the traffic of immovable pods, by node: a pod's request, its annotation, or the measured traffic.
func (p *Picture) fixedSends(appLabel string, seen map[string]float64) (fixed map[string]int64, notes []string, err error) {
	fixed = map[string]int64{}
	var silent []string
	for _, pod := range p.Pods {
		if podspec.Moves(pod) || pod.Spec.NodeName == "" {
			continue
		}
		bits, known := seen[nameOf(pod)]
		known = known && !pod.Spec.HostNetwork // else it was measured with all of its node's traffic
		if text, ok := pod.Annotations[podspec.EgressAnnotation]; ok {
			n, wrong := podspec.Egress(text)
			if wrong != nil {
				return nil, nil, fmt.Errorf("pod %s: the annotation %s: %w", nameOf(pod), podspec.EgressAnnotation, wrong)
			}
			bits, known = float64(n), true
		}
		if mbps := podspec.Demand(pod)[podspec.EgressResource]; mbps > 0 {
			bits, known = float64(mbps)*podspec.EgressUnit, true
		}
		if !known {
			silent = append(silent, podspec.Group(pod, appLabel))
			continue
		}
		fixed[pod.Spec.NodeName] += int64(math.Round(bits))
	}
	if len(silent) > 0 {
		notes = append(notes, "nothing is known of what these pods of every node send, and they count as 0: "+listed(silent))
	}
	return fixed, notes, nil
}

// limit returns the traffic that the pods of a node may have together.
func (e *Egress) limit(n *v1.Node) (int64, error) {
	if q, ok := n.Status.Allocatable[podspec.EgressResource]; ok {
		return min(podspec.Amount(podspec.EgressResource, &q), binpack.MaxValue/podspec.EgressUnit) * podspec.EgressUnit, nil
	}
	uplink := e.Uplink
	if text, ok := n.Annotations[podspec.EgressAnnotation]; ok {
		var err error
		if uplink, err = podspec.Egress(text); err == nil && uplink == 0 {
			err = errors.New("want more than 0")
		}
		if err != nil {
			return 0, fmt.Errorf("node %s: the annotation %s: %w", n.Name, podspec.EgressAnnotation, err)
		}
	}
	if uplink == 0 {
		return 0, fmt.Errorf("node %s: nothing says how much its uplink can: give --uplink, or the annotation %s", n.Name, podspec.EgressAnnotation)
	}
	return int64(math.Round(e.Share * float64(uplink))), nil
}

// raise lets running pods stay: a machine whose pods send more than they may has room for them,
// and the source's uplinks keep the limit.
func raise(t *trace.Trace, d int) (notes []string) {
	in := t.Instance
	used := make([]int64, len(in.Machines))
	for _, p := range t.Placed {
		used[p.Line] += int64(p.Count) * in.Apps[t.Requests[p.Request].App].Demand[d]
	}
	limits := map[string]any{}
	var busy []string
	for i := range in.Machines {
		m := &in.Machines[i]
		if used[i] <= m.Capacity[d] {
			continue
		}
		limits[m.Name] = m.Capacity[d]
		busy = append(busy, fmt.Sprintf("%s (%s of %s)", m.Name, bitsText(float64(used[i])), bitsText(float64(m.Capacity[d]))))
		m.Capacity[d] = used[i]
	}
	if len(busy) == 0 {
		return nil
	}
	t.Source["uplinks"] = limits
	return []string{"the pods of these nodes send more than they may: " + listed(busy)}
}

// bitsText formats a rate for people.
func bitsText(bits float64) string {
	for _, unit := range []struct {
		one  float64
		name string
	}{{1e9, "Gbit/s"}, {1e6, "Mbit/s"}, {1e3, "kbit/s"}} {
		if bits >= unit.one {
			return fmt.Sprintf("%.3g %s", bits/unit.one, unit.name)
		}
	}
	return fmt.Sprintf("%.3g bit/s", bits)
}

// listed lists the first of some names.
func listed(names []string) string {
	names = slices.Compact(slices.SortedFunc(slices.Values(names), cmp.Compare))
	if n := len(names) - mostNamed; n > 0 {
		return strings.Join(names[:mostNamed], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ")
}
