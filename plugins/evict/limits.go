package evict

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sigma-scheduler/sigma/plugins/owner"
)

// Limits bound the evictions within any hour, those of other sources included. 0 is no
// limit.
type Limits struct {
	// WorkloadPercent of a workload's replicas, rounded down, but at least one pod.
	WorkloadPercent int
	// OneAtATime refuses a workload whose pods are not all ready, and one of which a pod
	// was evicted within the last 5 s, which its status may not show yet.
	OneAtATime bool
	// PerNamespace, PerNode and PerHour count pods of a namespace, from a node, and in all.
	PerNamespace, PerNode, PerHour int
	// ofSource counts those in the name of the same source.
	ofSource int
}

// Defaults are the limits of make-room where its policy does not set lower
// ones: a node of 110 pods, the kubelet's default, takes two hours to empty.
var Defaults = Limits{WorkloadPercent: 10, OneAtATime: true, PerNamespace: 60, PerNode: 60, PerHour: 240}

// OfRebalance are the limits of a Rebalance: of a workload it moves one pod after the other, and may empty a node that has
// several of them.
var OfRebalance = Limits{WorkloadPercent: 25, OneAtATime: true, PerNamespace: 60, PerNode: 60, PerHour: 240}

// OfWorkload is the number of pods of a workload that may be evicted; 0 is no limit.
func (l *Limits) OfWorkload(replicas int) int {
	if l.WorkloadPercent <= 0 {
		return 0
	}
	return max(1, replicas*l.WorkloadPercent/100)
}

// statusLag is how long a workload's status may not show an eviction.
const statusLag = 5 * time.Second

// A LimitError is returned if a limit forbids an eviction now. Nothing was evicted.
type LimitError struct {
	Limit string    // whose: workload apps/Deployment/shop/web, namespace shop, node a, cluster
	Why   string    // the evictions counted against it
	Until time.Time // when to try again; zero: unknown
}

// Error implements error.
func (e *LimitError) Error() string { return "limit of the " + e.Limit + ": " + e.Why }

// A workload holds the records of evictions and the status of their object.
type workload struct {
	ref       owner.Ref
	kind      schema.GroupVersionKind
	namespace string
	records   []record // of its annotation
	broken    error    // the records cannot be read
	own       bool     // Sigma wrote the annotation
	// replicas are the desired ones, ready the ready ones; -1 if its kind has no such
	// number.
	replicas, ready int
}

func (w *workload) String() string {
	return fmt.Sprintf("%s/%s/%s/%s", w.ref.Group, w.ref.Kind, w.namespace, w.ref.Name)
}

// evictions returns the records of a workload. Its annotation and the list have the same ones,
// unless somebody changed the annotation: then it can only lower its own limit.
func (w *workload) evictions(list []entry) []record {
	name := w.String()
	if listed := recordsOf(list, func(n entry) bool { return n.workload == name }); len(listed) > len(w.records) {
		return listed
	}
	return w.records
}

// settled returns why a workload cannot spare a pod at this moment.
func (l *Limits) settled(w *workload, list []entry, now time.Time) error {
	if !l.OneAtATime {
		return nil
	}
	name := "workload " + w.String()
	if w.ready < w.replicas {
		return &LimitError{Limit: name, Why: fmt.Sprintf("%d of %d replicas are ready", max(w.ready, 0), w.replicas), Until: now.Add(statusLag)}
	}
	for _, r := range w.evictions(list) {
		if free := r.at.Add(statusLag); free.After(now) {
			return &LimitError{Limit: name, Why: "a pod was evicted a moment ago", Until: free}
		}
	}
	return nil
}

// check returns the limit that one more eviction of a pod of w would exceed. Only the
// workload's own limit counts its annotation, which others can write.
func (l *Limits) check(w *workload, r record, list []entry, now time.Time) error {
	if r.by != Batch {
		list = slices.DeleteFunc(slices.Clone(list), func(n entry) bool { return n.by == Batch })
	}
	for _, c := range []struct {
		name string
		most int
		have []record
	}{
		{"workload " + w.String(), l.OfWorkload(w.replicas), w.evictions(list)},
		{"namespace " + w.namespace, l.PerNamespace, recordsOf(list, func(n entry) bool { return n.namespace() == w.namespace })},
		{"node " + r.node, l.PerNode, recordsOf(list, func(n entry) bool { return n.node == r.node })},
		{"cluster", l.PerHour, recordsOf(list, every)},
		{"source " + string(r.by), l.ofSource, recordsOf(list, func(n entry) bool { return n.by == r.by })},
	} {
		if c.most > 0 && len(c.have) >= c.most {
			return &LimitError{Limit: c.name, Why: fmt.Sprintf("%d evictions within an hour, at most %d are allowed", len(c.have), c.most), Until: freeAt(c.have, now)}
		}
	}
	return nil
}

// full returns the limit of a namespace, of a node or of the cluster that evictions of some pods of a node would exceed.
// A limit that these alone exceed has to be free.
func (l *Limits) full(pods []*v1.Pod, list []entry) error {
	list = slices.DeleteFunc(slices.Clone(list), func(n entry) bool { return n.by == Batch })
	of := func(name string, most, more int, in func(n entry) bool) error {
		if have := len(recordsOf(list, in)); most > 0 && have > 0 && have+more > most {
			return &LimitError{Limit: name, Why: fmt.Sprintf("%d evictions within an hour and %d to come, at most %d are allowed", have, more, most)}
		}
		return nil
	}
	namespaces, nodes := map[string]int{}, map[string]int{}
	for _, p := range pods {
		namespaces[p.Namespace]++
		nodes[p.Spec.NodeName]++
	}
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		if err := of("namespace "+name, l.PerNamespace, namespaces[name], func(n entry) bool { return n.namespace() == name }); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		if err := of("node "+name, l.PerNode, nodes[name], func(n entry) bool { return n.node == name }); err != nil {
			return err
		}
	}
	return of("cluster", l.PerHour, len(pods), every)
}

// freeAt is the time at which the oldest record of a full limit is an hour old.
func freeAt(list []record, now time.Time) time.Time {
	first := now
	for _, r := range list {
		if r.at.Before(first) {
			first = r.at
		}
	}
	return first.Add(window)
}
