package mover

import (
	"cmp"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// mostOfOne are the chains and gaps of pods of one namespace at a time: the last is for pods of others.
	mostOfOne = mostChains - 1
	// turnFor is how long a namespace keeps its turn without a try: longer than pods without a chain wait
	// for the next one.
	turnFor = 2 * againAfter
)

// A line holds the pods that wait without a chain, by namespace. If there are too many, it keeps the same number for
// each namespace. The next search is for the namespace whose last search is the longest ago.
type line struct {
	pods   map[string]map[types.UID]*v1.Pod
	count  int
	served map[string]time.Time // when a search was last made, by namespace
	asked  map[string]time.Time // when a pod was last turned away without a search, by namespace
}

func newLine() line {
	return line{pods: map[string]map[types.UID]*v1.Pod{}, served: map[string]time.Time{}, asked: map[string]time.Time{}}
}

// add adds a pod. Where there are too many, one of the namespace with most of them leaves, which may be this one.
func (l *line) add(pod *v1.Pod) {
	own := l.pods[pod.Namespace]
	if own[pod.UID] == nil && l.count >= mostAway {
		most := slices.MaxFunc(slices.Sorted(maps.Keys(l.pods)), func(a, b string) int { return cmp.Compare(len(l.pods[a]), len(l.pods[b])) })
		if len(l.pods[most]) <= len(own)+1 {
			return
		}
		for _, p := range l.pods[most] {
			l.remove(p)
			break
		}
	}
	if own == nil {
		own = map[types.UID]*v1.Pod{}
		l.pods[pod.Namespace] = own
	}
	if own[pod.UID] == nil {
		l.count++
	}
	own[pod.UID] = pod
}

func (l *line) remove(pod *v1.Pod) {
	own := l.pods[pod.Namespace]
	if own[pod.UID] == nil {
		return
	}
	l.count--
	if delete(own, pod.UID); len(own) == 0 {
		delete(l.pods, pod.Namespace)
	}
}

// take removes some pods and returns them: one of each namespace, then one more, that which had no search for longest first.
func (l *line) take(most int) (list []*v1.Pod) {
	names := slices.SortedFunc(maps.Keys(l.pods), func(a, b string) int {
		return cmp.Or(l.served[a].Compare(l.served[b]), cmp.Compare(a, b))
	})
	for l.count > 0 && len(list) < most {
		for _, name := range names {
			for _, p := range l.pods[name] {
				l.remove(p)
				list = append(list, p)
				break
			}
			if len(list) == most {
				break
			}
		}
	}
	return list
}

// waits notes that a pod of a namespace was turned away without a search.
func (l *line) waits(namespace string, now time.Time) { l.asked[namespace] = now }

// serves notes a search for a pod of a namespace.
func (l *line) serves(namespace string, now time.Time) {
	delete(l.asked, namespace)
	l.served[namespace] = now
	if len(l.served) > mostAway {
		maps.DeleteFunc(l.served, func(_ string, at time.Time) bool { return now.Sub(at) >= time.Hour })
	}
}

// isNext reports whether no other waiting namespace has its last search longer ago.
func (l *line) isNext(namespace string, now time.Time) bool {
	maps.DeleteFunc(l.asked, func(_ string, at time.Time) bool { return now.Sub(at) >= turnFor })
	for other := range l.asked {
		if l.served[other].Before(l.served[namespace]) {
			return false
		}
	}
	return true
}

// has is how many chains are under way for pods of a namespace, with the gaps that such chains have left.
func (m *Mover) has(namespace string) (count int) {
	for _, c := range m.chains {
		if c.Pod != nil && c.Pod.Namespace == namespace {
			count++
		}
	}
	for _, g := range m.gaps {
		if g.of == namespace {
			count++
		}
	}
	return count
}
