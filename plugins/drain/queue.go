package drain

import (
	"cmp"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxOfNamespace are the chains and gaps of pods of one namespace at a time: the last is for pods of others.
	maxOfNamespace = maxChains - 1
	// turnTimeout is how long a namespace keeps its turn without a try: longer than pods without a chain wait
	// for the next one.
	turnTimeout = 2 * chainRetry
)

// A waitingQueue holds the pods that wait without a chain, by namespace. If there are too many, it keeps the same number for
// each namespace. The next search is for the namespace whose last search is the longest ago.
type waitingQueue struct {
	pods         map[string]map[types.UID]*v1.Pod
	count        int
	searchedAt   map[string]time.Time // when a search was last made, by namespace
	waitingSince map[string]time.Time // when a pod was last turned away without a search, by namespace
}

func newWaitingQueue() waitingQueue {
	return waitingQueue{pods: map[string]map[types.UID]*v1.Pod{}, searchedAt: map[string]time.Time{}, waitingSince: map[string]time.Time{}}
}

// add adds a pod. Where there are too many, one of the namespace with most of them leaves, which may be this one.
func (l *waitingQueue) add(pod *v1.Pod) {
	own := l.pods[pod.Namespace]
	if own[pod.UID] == nil && l.count >= maxWaiting {
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

func (l *waitingQueue) remove(pod *v1.Pod) {
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
func (l *waitingQueue) take(most int) (list []*v1.Pod) {
	names := slices.SortedFunc(maps.Keys(l.pods), func(a, b string) int {
		return cmp.Or(l.searchedAt[a].Compare(l.searchedAt[b]), cmp.Compare(a, b))
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

// recordWait notes that a pod of a namespace was turned away without a search.
func (l *waitingQueue) recordWait(namespace string, now time.Time) { l.waitingSince[namespace] = now }

// recordSearch notes a search for a pod of a namespace.
func (l *waitingQueue) recordSearch(namespace string, now time.Time) {
	delete(l.waitingSince, namespace)
	l.searchedAt[namespace] = now
	if len(l.searchedAt) > maxWaiting {
		maps.DeleteFunc(l.searchedAt, func(_ string, at time.Time) bool { return now.Sub(at) >= time.Hour })
	}
}

// isNext reports whether no other waiting namespace has its last search longer ago.
func (l *waitingQueue) isNext(namespace string, now time.Time) bool {
	maps.DeleteFunc(l.waitingSince, func(_ string, at time.Time) bool { return now.Sub(at) >= turnTimeout })
	for other := range l.waitingSince {
		if l.searchedAt[other].Before(l.searchedAt[namespace]) {
			return false
		}
	}
	return true
}

// inProgress is how many chains are under way for pods of a namespace, with the gaps that such chains have left.
func (m *Chains) inProgress(namespace string) (count int) {
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
