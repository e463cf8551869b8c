package drain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/binpack/plan/defrag"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/evict"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

const (
	day = 24 * time.Hour
	// afterMidnight is the time after midnight UTC at which daily plans of goal Fit begin: sizes may change at midnight.
	afterMidnight = 5 * time.Minute
	// maxToday is the most moves of a day: their records are in the status.
	maxToday = 1000
	// ofWorkload is the largest share of the pods of a workload that move on a day, as in replays of nights.
	ofWorkload = .25
	// maxAsked bounds how often a plan runs the scheduler's filters, each over all pods of the cluster.
	maxAsked = 100
	// maxNotes are the reasons that a condition names.
	maxNotes = 5
)

// amounts are by dimension, in the units of [podspec.Amounts].
type amounts map[string]float64

func (a amounts) add(b amounts, times float64) {
	for d, n := range b {
		a[d] += times * n
	}
}

func amountsOf(of map[string]int64) amounts {
	a := make(amounts, len(of))
	for d, n := range of {
		a[d] = float64(n)
	}
	return a
}

// within reports whether no amount is above that of another.
func (a amounts) within(most amounts) bool {
	for d, n := range a {
		if n > most[d] {
			return false
		}
	}
	return true
}

// leaves is the search for the pods that leave overfull nodes. Its inputs are in its fields: it reads no clock.
type leaves struct {
	now      time.Time
	appLabel string
	nodes    map[string]*v1.Node  // those that give and take pods
	on       map[string][]*v1.Pod // by node, in the order of their names, without batch pods
	pods     int
	groups   map[string]int // pods on nodes by workload
	room     map[string]map[string]int64
	capacity map[string]amounts
	used     map[string]amounts
	earlier  map[string]amounts // a node is overfull only if it was by these too; nil = there are none
	sizes    map[types.UID]amounts
	margin   float64 // the largest used ÷ capacity of a node that takes a pod
	once     bool    // a node gives or takes one pod
	stays    func(*v1.Pod) string
	prefer   func(*v1.Pod, []string) []string
	refusal  func(*v1.Pod, string) string
	recent   map[string]int // evictions of the last hour by workload
	today    []v1alpha1.RebalanceMove
	paused   func(node string) bool

	takers []string // nodes that were not overfull at first, by name
	asked  int
	moves  []v1alpha1.RebalanceMove
	pod    map[string]*v1.Pod // that moves, by name
	notes  []string
}

func (l *leaves) note(text string, args ...any) {
	l.notes = append(l.notes, fmt.Sprintf(text, args...))
}

// today are the moves that count toward the limits at a time: those of its day of UTC, of the last minutes, and of a
// clock that was set back.
func today(list []v1alpha1.RebalanceMove, now time.Time) []v1alpha1.RebalanceMove {
	since := now.UTC().Truncate(day)
	if recent := now.Add(-reliefPause); recent.Before(since) {
		since = recent
	}
	return slices.DeleteFunc(slices.Clone(list), func(m v1alpha1.RebalanceMove) bool { return m.Time.Time.Before(since) })
}

// newLeaves reads the cluster.
func newLeaves(pods []*v1.Pod, nodes []*v1.Node, selector map[string]string, appLabel string, now time.Time) *leaves {
	l := &leaves{
		now: now, appLabel: appLabel, margin: 1, nodes: map[string]*v1.Node{}, on: map[string][]*v1.Pod{}, groups: map[string]int{}, room: map[string]map[string]int64{},
		capacity: map[string]amounts{}, used: map[string]amounts{}, sizes: map[types.UID]amounts{}, pod: map[string]*v1.Pod{}, paused: func(string) bool { return false },
	}
	for _, n := range nodes {
		if labels.SelectorFromSet(selector).Matches(labels.Set(n.Labels)) && !n.Spec.Unschedulable && nodeReady(n) {
			l.nodes[n.Name], l.room[n.Name] = n, podspec.Amounts(n.Status.Allocatable)
		}
	}
	for _, p := range slices.SortedFunc(slices.Values(pods), func(a, b *v1.Pod) int { return cmp.Compare(nameOf(a), nameOf(b)) }) {
		if p.Spec.NodeName == "" || podspec.Ended(p) {
			continue
		}
		if p.DeletionTimestamp == nil {
			l.groups[podspec.Group(p, appLabel)]++
		}
		if l.nodes[p.Spec.NodeName] == nil {
			continue
		}
		addDemand(l.room[p.Spec.NodeName], p, -1)
		if !podspec.Batch(p) { // these leave by themselves, and first
			l.pods++
			l.on[p.Spec.NodeName] = append(l.on[p.Spec.NodeName], p)
		}
	}
	return l
}

// request sets the amounts of all nodes and pods to the requests of the specs, which are the desired ones of a resize. A
// desired size that its node lacks without any other pod makes no other pod leave: the node uses the present one.
func (l *leaves) request() {
	for name, n := range l.nodes {
		l.capacity[name], l.used[name] = amountsOf(podspec.Amounts(n.Status.Allocatable)), amounts{}
		for _, p := range l.on[name] {
			desired, counts := amountsOf(podspec.Desired(p)), amountsOf(podspec.Demand(p))
			l.sizes[p.UID] = desired
			if desired.within(l.capacity[name]) {
				counts = desired
			}
			l.used[name].add(counts, 1)
		}
	}
}

// An overfull node has more of a dimension in use than it has.
type overfull struct {
	node, dimension string
	excess, share   float64
}

// overfull are the nodes with more in use than they have, the fullest first, each by its fullest dimension.
func (l *leaves) overfull() (list []overfull) {
	for _, name := range slices.Sorted(maps.Keys(l.nodes)) {
		worst := overfull{}
		for _, d := range slices.Sorted(maps.Keys(l.used[name])) {
			used, most := l.used[name][d], l.capacity[name][d]
			if share := used / max(1, most); used > most && (l.earlier == nil || l.earlier[name][d] > most) && share > worst.share {
				worst = overfull{name, d, used - most, share}
			}
		}
		if worst.node != "" {
			list = append(list, worst)
		}
	}
	slices.SortStableFunc(list, func(a, b overfull) int { return cmp.Compare(b.share, a.share) })
	return list
}

// unresized are the pods whose resize in place their node has refused for long though its requests fit.
func (l *leaves) unresized() (list []*v1.Pod) {
	for _, name := range slices.Sorted(maps.Keys(l.nodes)) {
		for _, p := range l.on[name] {
			if slices.ContainsFunc(p.Status.Conditions, func(k v1.PodCondition) bool {
				return k.Type == v1.PodResizePending && k.Status == v1.ConditionTrue && l.now.Sub(k.LastTransitionTime.Time) >= reliefPause
			}) {
				list = append(list, p)
			}
		}
	}
	return list
}

// search makes moves, at most so many, until no node is overfull that can give a pod away, and returns how many were
// overfull at first.
func (l *leaves) search(most int) (over int) {
	list, stuck := l.overfull(), map[string]bool{}
	first := map[string]bool{}
	for _, o := range list {
		first[o.node] = true
	}
	for _, name := range slices.Sorted(maps.Keys(l.nodes)) {
		if !first[name] {
			l.takers = append(l.takers, name)
		}
	}
	pending := l.unresized()
	if l.earlier != nil {
		pending = nil
	}
	for _, p := range pending {
		first[p.Spec.NodeName] = true
	}
	for len(list) > 0 {
		o := list[0]
		why := l.giveAway(o, l.on[o.node], most)
		if why != "" {
			l.note("node %s has %.2f of its %s and keeps its pods: %s", o.node, o.share, o.dimension, why)
		}
		stuck[o.node] = why != "" || l.once
		if list = list[1:]; why == "" { // the others may have more or less now
			list = slices.DeleteFunc(l.overfull(), func(o overfull) bool { return stuck[o.node] })
		}
	}
	for _, p := range pending {
		if l.pod[nameOf(p)] == nil && p.Spec.NodeName != "" {
			if why := l.giveAway(overfull{node: p.Spec.NodeName, dimension: "cpu"}, []*v1.Pod{p}, most); why != "" {
				l.note("the resize of %s waits on node %s: %s", nameOf(p), p.Spec.NodeName, why)
			}
		}
	}
	return len(first)
}

// giveAway moves one of some pods from an overfull node to another: the smallest that is no less than the excess, else
// the largest that finds a place. It returns why it moves none.
func (l *leaves) giveAway(o overfull, pods []*v1.Pod, most int) (why string) {
	movable := 0
	for _, p := range l.on[o.node] {
		if podspec.Moves(p) && l.pod[nameOf(p)] == nil {
			movable++
		}
	}
	switch {
	case len(l.moves) >= most:
		return "no more moves are allowed now"
	case l.paused(o.node):
		return "a move of a pod failed less than 10 minutes ago"
	case movable < 2:
		return "it has no other pod"
	case l.once && l.isBusy(o.node):
		return "it gave or took a pod less than 10 minutes ago"
	}
	var may []*v1.Pod
	var sizes []float64
	for _, p := range pods {
		stays := l.stays(p)
		group := podspec.Group(p, l.appLabel)
		switch {
		case stays != "":
		case movesOf(group, l.today, l.moves) >= max(1, int(ofWorkload*float64(l.groups[group]))):
			stays = "a quarter of its workload has moved today"
		case l.recent[group]+movesOf(group, l.moves) >= evict.OfRebalance.OfWorkload(l.groups[group]):
			stays = "as many pods of its workload move already as may be evicted within an hour"
		}
		if size := l.sizes[p.UID][o.dimension]; stays == "" && size > 0 && l.pod[nameOf(p)] == nil {
			may, sizes = append(may, p), append(sizes, size)
		} else if stays != "" && podspec.Moves(p) {
			why = nameOf(p) + ": " + stays
		}
	}
	if len(may) == 0 {
		return cmp.Or(why, "none of its pods may move")
	}
	for _, i := range defrag.LeaveOrder(sizes, o.excess) {
		if to := l.target(may[i]); to != "" {
			l.move(may[i], to)
			return ""
		}
	}
	return "no node has room for one that may move"
}

// target is the node that the policy prefers for a pod among those that take it; "" = there is none.
func (l *leaves) target(p *v1.Pod) string {
	var takes []string
	demand, selector := podspec.Demand(p), podspec.NewSelector(p)
	for _, name := range l.takers {
		if name != p.Spec.NodeName && l.takes(name, l.sizes[p.UID], demand) && selector.Admits(l.nodes[name]) {
			takes = append(takes, name)
		}
	}
	if len(takes) == 0 {
		return ""
	}
	for _, name := range l.prefer(p, takes) {
		if l.asked++; l.asked > maxAsked {
			return ""
		}
		if l.refusal(p, name) == "" {
			return name
		}
	}
	return ""
}

// takes reports whether a node has room for a pod, by its amounts and its demand.
func (l *leaves) takes(name string, size amounts, demand map[string]int64) bool {
	for d, n := range size {
		most := l.margin * l.capacity[name][d]
		if l.used[name][d]+n > most || l.earlier != nil && l.earlier[name][d]+n > most {
			return false
		}
	}
	for d, n := range demand {
		if l.room[name][d] < n {
			return false
		}
	}
	return !l.once || !l.isBusy(name)
}

// isBusy reports whether a node gave or took a pod a short time ago.
func (l *leaves) isBusy(node string) bool {
	return slices.ContainsFunc(slices.Concat(l.today, l.moves), func(m v1alpha1.RebalanceMove) bool {
		return (m.From == node || m.To == node) && l.now.Sub(m.Time.Time) < reliefPause
	})
}

// movesOf is how many pods of a workload are in lists of moves.
func movesOf(group string, lists ...[]v1alpha1.RebalanceMove) (n int) {
	for _, m := range slices.Concat(lists...) {
		if m.Workload == group {
			n++
		}
	}
	return n
}

// move plans a move.
func (l *leaves) move(p *v1.Pod, to string) {
	from := p.Spec.NodeName
	l.pod[nameOf(p)] = p
	l.moves = append(l.moves, v1alpha1.RebalanceMove{Time: metav1.NewMicroTime(l.now), Pod: nameOf(p), Workload: podspec.Group(p, l.appLabel), From: from, To: to})
	l.used[from].add(l.sizes[p.UID], -1)
	l.used[to].add(l.sizes[p.UID], 1)
	addDemand(l.room[from], p, 1)
	addDemand(l.room[to], p, -1)
}
