package drain

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/plugins/evict"
)

// A story tells a drain what can be seen, and says what it is to do.
type story struct {
	*testing.T
	u   *drain
	now time.Time
	e   observation
	n   int

	marked bool // the node, as empty
}

// newStory has a node a with pods of workloads, which are to go to b, c and so on.
func newStory(t *testing.T, inFlight int, workloads ...string) *story {
	u := &drain{node: "n00", inFlight: inFlight}
	for i, workload := range workloads {
		u.moves = append(u.moves, &move{moved: &movedPod{pod(workload, i, 0, "1")}, to: fmt.Sprintf("n%02d", i+1), group: workload})
	}
	return &story{t, u, noon, observation{blocked: func(*move) block { return block{} }}, 100, false}
}

// after lets time pass and requires what the drain does then. What it asks for is seen the next time.
func (s *story) after(d time.Duration, want action) {
	s.Helper()
	s.now = s.now.Add(d)
	s.e.complete = s.marked && s.e.empty && s.u.count(func(m *move) bool { return m.done }) == len(s.u.moves)
	is := s.u.step(s.now, s.e)
	s.e.err = nil
	require.Equal(s, want, is, "stage %d, why %q", s.u.stage, s.u.why)
	s.e.cordoned = s.e.cordoned || is == cordon
	s.e.reserved = s.e.reserved || is == reserve
	s.marked = s.marked || is == markEmpty
}

// comes has a replacement come to a node.
func (s *story) comes(workload string, on int, ready bool) {
	s.n++
	s.e.arrived = append(s.e.arrived, arrival{pod(workload, s.n, on, "1"), workload, ready})
}

// evicting has the first pod evicted.
func (s *story) evicting() *story {
	s.Helper()
	s.after(0, cordon)
	s.after(time.Second, reserve)
	s.after(time.Second, evictPod)
	return s
}

func (s *story) givenUp(why string, isRefused bool) {
	s.Helper()
	require.Equal(s, givenUp, s.u.stage)
	require.Contains(s, s.u.why, why)
	require.Equal(s, isRefused, s.u.outcome == refused)
	s.after(time.Hour, wait) // and that is all
}

func TestNodeIsEmptied(t *testing.T) {
	s := newStory(t, 1, "web", "db").evicting()
	s.after(time.Second, wait)
	s.comes("web", 1, false)
	s.after(time.Second, wait) // it is not ready
	s.e.arrived[0].ready = true
	s.after(time.Second, evictPod)
	require.Equal(t, "db", s.u.last.group)
	s.comes("db", 2, true)
	s.after(time.Second, wait) // the old pod still ends
	s.e.empty = true
	s.after(time.Second, markEmpty)
	s.after(time.Second, wait)
	require.Equal(t, complete, s.u.stage)
	require.Equal(t, done, s.u.outcome)
	s.after(time.Hour, wait)
}

// A pod with a grace period of years is waited for no longer than the ceiling and the slack of a
// replacement, also where the Rebalance is deleted meanwhile, and no deadline is beyond a week.
func TestLongGrace(t *testing.T) {
	for _, seconds := range []int64{100_000_000, 9_223_372_037, math.MaxInt64} {
		for _, ceiling := range []time.Duration{0, time.Hour} {
			s := newStory(t, 1, "web")
			s.u.moves[0].maxGrace = ceiling
			s.u.moves[0].moved.pod.Spec.TerminationGracePeriodSeconds = &seconds
			s.evicting()
			s.e.stop = "The Rebalance was deleted."
			most := cmp.Or(ceiling, 15*time.Minute) + replacementTimeout
			s.after(most-time.Second, wait)
			s.after(time.Second, releasePlaces)
			s.givenUp("The Rebalance was deleted.", false)
		}
	}
	s := newStory(t, 1, slices.Repeat([]string{"web"}, 5000)...)
	for _, m := range s.u.moves {
		m.maxGrace, m.moved.pod.Spec.TerminationGracePeriodSeconds = 24*time.Hour, new(int64(math.MaxInt64))
	}
	require.Equal(t, noon.Add(maxDeadline-time.Hour), s.u.deadline(noon))
	s = newStory(t, 1, "web", "db")
	require.Equal(t, noon.Add(2*(30*time.Second+replacementTimeout+progressTimeout)+2*progressTimeout), s.u.deadline(noon))
}

// A node that is marked as empty is emptied, though nothing more may begin.
func TestNodeIsEmptiedAtAStop(t *testing.T) {
	s := newStory(t, 1, "web").evicting()
	s.comes("web", 1, true)
	s.e.empty = true
	s.after(time.Second, markEmpty)
	s.e.stop = "the spec was changed"
	s.after(time.Second, wait)
	require.Equal(t, complete, s.u.stage)
	require.Equal(t, done, s.u.outcome)
}

// As many pods as asked for are away at once, but only one of a workload.
func TestInFlight(t *testing.T) {
	s := newStory(t, 2, "web", "db", "log").evicting()
	s.after(time.Second, evictPod)
	s.after(time.Second, wait)
	s.comes("db", 2, true)
	s.after(time.Second, evictPod)
	require.Equal(t, "log", s.u.last.group)

	s = newStory(t, 2, "web", "web", "db").evicting()
	s.after(time.Second, wait)
	s.comes("web", 1, true)
	s.after(time.Second, evictPod)
}

// A replacement may take the place of the next of its workload, which then takes its place.
func TestPlacesOfAWorkloadAreEqual(t *testing.T) {
	s := newStory(t, 1, "web", "web").evicting()
	s.comes("web", 2, true)
	s.after(time.Second, evictPod)
	require.Equal(t, []string{"n02", "n01"}, []string{s.u.moves[0].to, s.u.moves[1].to})
	s.comes("web", 1, true)
	s.e.empty = true
	s.after(time.Second, markEmpty)
}

func TestUnitIsGivenUp(t *testing.T) {
	limit := func(in time.Duration) error {
		return &evict.LimitError{Limit: "cluster", Why: "240 evictions within an hour", Until: noon.Add(in)}
	}
	for _, tt := range []struct {
		name    string
		tell    func(s *story)
		why     string
		refused bool
	}{
		{"the replacement never comes", func(s *story) {
			s.evicting()
			s.after(2*time.Minute+29*time.Second, wait)
			s.after(time.Second, releasePlaces)
		}, "no replacement of shop/web-7d4-00 was ready on node n01 in 2m30s", false},
		{"the replacement starts and is not ready", func(s *story) {
			s.evicting()
			s.after(2*time.Minute, wait)
			s.comes("web", 1, false)
			s.after(time.Second, wait)
			s.after(5*time.Minute-time.Second, wait)
			s.after(time.Second, releasePlaces)
		}, "no replacement of shop/web-7d4-00 was ready on node n01 in 7m1s", false},
		{"the answer is lost, and the pod stands", func(s *story) {
			s.evicting()
			s.e.err = &evict.UncertainError{Err: errors.New("EOF")}
			s.e.running = map[types.UID]bool{s.u.moves[0].moved.pod.UID: true}
			s.after(time.Second, wait)
			s.after(13*time.Second, wait)
			s.after(time.Second, releasePlaces)
		}, "the answer to the eviction of shop/web-7d4-00 was lost, and the pod still stands after 15s", false},
		{"the replacement fits on no node", func(s *story) {
			s.evicting()
			s.e.stranded = "shop/web-7d4-07"
			s.after(time.Second, wait)
			s.e.stranded = "" // it is tried again
			s.after(20*time.Second, wait)
			s.e.stranded = "shop/web-7d4-07"
			s.after(time.Second, wait)
			s.after(15*time.Second-1, wait)
			s.after(1, releasePlaces)
		}, "shop/web-7d4-07, which replaces a pod, has fit on no node for 15s", false},
		{"the replacement fits on no node since its place is gone", func(s *story) {
			s.evicting()
			s.e.stranded, s.e.lost = "shop/web-7d4-07", "node n01 is gone"
			s.after(time.Second, wait)
			s.after(15*time.Second, releasePlaces)
		}, "node n01 is gone", false},
		{"there is no replacement", func(s *story) {
			s.evicting()
			s.e.missing = "shop/web-7d4-00"
			s.after(10*time.Second, wait)
			s.after(time.Minute-1, wait)
			s.after(1, releasePlaces)
		}, "there has been no replacement of shop/web-7d4-00 for 1m0s", false},
		{"the replacement comes late, and is never ready", func(s *story) {
			s.evicting()
			s.e.missing = "shop/web-7d4-00"
			s.after(50*time.Second, wait)
			s.e.missing = ""
			s.after(time.Second, wait)
			s.e.missing = "shop/web-7d4-00"
			s.after(50*time.Second, wait)
			s.e.missing = ""
			s.after(40*time.Second, wait)
			s.after(20*time.Second, releasePlaces)
		}, "no replacement of shop/web-7d4-00 was ready", false},
		{"the replacement is never ready", func(s *story) {
			s.evicting().comes("web", 1, false)
			s.after(time.Second, wait)
			s.after(6*time.Minute, releasePlaces)
		}, "no replacement of shop/web-7d4-00 was ready", false},
		{"the node dies before the first eviction", func(s *story) {
			s.after(0, cordon)
			s.e.lost = "the node is gone"
			s.after(time.Second, releasePlaces)
		}, "the node is gone", false},
		{"the node dies while a pod is away", func(s *story) {
			s.evicting()
			s.e.lost = "the node is gone"
			s.after(time.Second, wait)
			s.comes("web", 1, true)
			s.after(time.Second, releasePlaces)
		}, "the node is gone", false},
		{"a foreign pod takes the room before the eviction", func(s *story) {
			s.after(0, cordon)
			s.after(time.Second, reserve)
			s.e.blocked = func(*move) block { return block{why: "node n01 lacks cpu for shop/web-7d4-00"} }
			s.after(time.Second, wait)
			s.after(5*time.Minute, releasePlaces)
		}, "node n01 lacks cpu for shop/web-7d4-00, for 5m0s", true},
		{"a foreign pod takes the room after it, and the replacement stands elsewhere", func(s *story) {
			s.evicting()
			s.after(6*time.Minute, releasePlaces)
		}, "no replacement", false},
		{"another pod of the workload takes the place", func(s *story) {
			s.after(0, cordon)
			s.after(time.Second, reserve)
			s.comes("web", 1, true)
			s.after(time.Second, releasePlaces)
		}, "took a place on node n01 that was for another pod", false},
		{"a budget becomes tighter, and is seen", func(s *story) {
			s.evicting().comes("web", 1, true)
			s.e.blocked = func(*move) block { return block{why: "a disruption budget keeps shop/db-7d4-01"} }
			s.after(time.Second, wait)
			s.after(5*time.Minute, releasePlaces)
		}, "a disruption budget keeps shop/db-7d4-01", true},
		{"a budget becomes tighter, and is not seen", func(s *story) {
			s.evicting()
			s.e.err = &evict.RefusedError{Budget: true, Err: errors.New("it would violate the budget")}
			s.after(time.Second, releasePlaces)
		}, "shop/web-7d4-00 is not evicted: it would violate the budget", true},
		{"a limit for an hour", func(s *story) {
			s.evicting()
			s.e.err = limit(time.Hour)
			s.after(time.Second, releasePlaces)
		}, "limit of the cluster", true},
		{"a limit that ends soon, again and again", func(s *story) {
			s.evicting()
			for range 2 {
				s.e.err = limit(s.now.Sub(noon) + 2*time.Minute)
				s.after(time.Second, wait)
				s.after(2*time.Minute, evictPod)
			}
			s.e.err = limit(s.now.Sub(noon) + 2*time.Minute)
			s.after(time.Second, wait)
			s.after(time.Minute, releasePlaces)
		}, "an eviction of shop/web-7d4-00 was refused, for 5m0s", true},
		{"no right to cordon", func(s *story) {
			s.after(0, cordon)
			s.e.cordoned, s.e.err = false, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n00", nil)
			s.after(time.Second, releasePlaces)
		}, "forbidden", true},
		{"the cordon does not show", func(s *story) {
			s.after(0, cordon)
			s.e.cordoned = false
			s.after(time.Second, wait)
			s.after(10*time.Second, cordon)
			s.e.cordoned = false
			s.after(time.Second, wait)
			s.now = s.now.Add(5 * time.Minute)
			s.u.retryAt = s.now.Add(time.Second)
			s.after(0, releasePlaces)
		}, "it could not be cordoned, for 5m0s", false},
		{"the right to mark it is taken away", func(s *story) {
			s.u.moves = s.u.moves[:1]
			s.evicting().comes("web", 1, true)
			s.e.empty = true
			s.after(time.Second, markEmpty)
			s.marked = false
			s.after(time.Second, markEmpty)
			s.marked = false
			s.after(5*time.Minute, releasePlaces)
		}, "it could not be marked as empty", true},
		{"it is told to stop while a pod is away", func(s *story) {
			s.evicting()
			s.e.stop = "pods wait"
			s.after(time.Second, wait)
			s.comes("web", 1, true)
			s.after(time.Second, releasePlaces)
			require.Equal(s, 1, s.u.count(func(m *move) bool { return m.begun }))
		}, "pods wait", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStory(t, 1, "web", "db")
			tt.tell(s)
			s.givenUp(tt.why, tt.refused)
		})
	}
}

// An answer that is lost may be of an eviction that was made: the pod counts as away.
func TestLostAnswer(t *testing.T) {
	s := newStory(t, 1, "web", "db").evicting()
	s.e.err = &evict.UncertainError{Err: errors.New("EOF")}
	s.after(time.Second, wait)
	s.after(time.Minute, wait) // the pod ends, or is gone
	s.comes("web", 1, true)
	s.after(time.Second, evictPod)
}

// A clock that is set back makes the drain wait as long as before, and no longer.
func TestClockIsSetBack(t *testing.T) {
	s := newStory(t, 1, "web").evicting()
	s.after(-24*time.Hour, wait)
	s.after(2*time.Minute, wait)
	s.after(30*time.Second, releasePlaces)
	s.givenUp("no replacement", false)

	s = newStory(t, 1, "web").evicting() // its replacement is ready, and the old pod still ends
	s.comes("web", 1, true)
	s.after(time.Second, wait)
	s.after(-24*time.Hour, wait)
	s.after(5*time.Minute, releasePlaces)
	s.givenUp("pods are still ending on it", true)
}

// The cordon has its time, and the places that are reserved then have theirs.
func TestLateCordon(t *testing.T) {
	s := newStory(t, 1, "web")
	s.after(0, cordon)
	s.after(progressTimeout, reserve)
	s.after(time.Second, evictPod)
}

// A node may become empty as late as its evicted pods allow, whatever replaces them, and is then marked.
func TestLateEmpty(t *testing.T) {
	s := newStory(t, 1, "web")
	s.u.moves[0].moved.pod.Spec.TerminationGracePeriodSeconds = new(int64(600))
	s.evicting()
	s.comes("web", 1, true) // with a grace period of 30 s
	s.after(time.Minute, wait)
	s.after(11*time.Minute-time.Second, wait)
	s.e.empty = true
	s.after(time.Hour, markEmpty)
	s.marked = false
	s.after(progressTimeout-1, markEmpty)
	s.marked = false
	s.after(1, releasePlaces)
	s.givenUp("it could not be marked as empty, for 5m0s", true)
}

// Killed at any step: what the next leader finds on the node is taken back, unless the node was
// empty. A scheduler that does not lead waits for the deadline.
func TestKilledAtEveryStep(t *testing.T) {
	read := func(patch []byte, err error) *v1.Node {
		require.NoError(t, err)
		return patched(t, node(0, "a"), patch)
	}
	keeps := func(string) string { return "" }
	for name, n := range map[string]*v1.Node{
		"before the cordon": node(0, "a"),
		"after the cordon":  read(cordonPatch(node(0, "a"), "nightly", noon.Add(time.Hour))),
	} {
		t.Run(name, func(t *testing.T) {
			ours := n.Annotations[cordonedBy] != ""
			require.Equal(t, ours, uncordonReason(n, noon, true, "", keeps) != "", "a new leader")
			require.Empty(t, uncordonReason(n, noon, true, "n00", keeps), "its own")
			require.Empty(t, uncordonReason(n, noon, false, "", keeps), "a standby")
			require.Equal(t, ours, uncordonReason(n, noon.Add(time.Hour), false, "", keeps) != "", "a standby, at the deadline")
			require.Equal(t, ours, uncordonReason(n, noon.Add(-30*24*time.Hour), false, "", keeps) != "", "the clock was set back")
		})
	}
	n := read(cordonPatch(node(0, "a"), "nightly", noon.Add(2*time.Hour)))
	patch, err := emptyPatch(n, noon)
	require.NoError(t, err)
	n = patched(t, n, patch)
	require.True(t, n.Spec.Unschedulable)
	require.Empty(t, uncordonReason(n, noon.Add(emptyTTL-time.Second), true, "", keeps), "it is empty")
	require.NotEmpty(t, uncordonReason(n, noon.Add(emptyTTL), false, "", keeps), "nobody removed it")
	require.Equal(t, "nightly", uncordonReason(n, noon, true, "", func(name string) string { return name }), "as its Rebalance says")
	n.Annotations[cordonedUntil] = "soon"
	require.NotEmpty(t, uncordonReason(n, noon, false, "", keeps))
	n.Annotations[cordonedUntil] = noon.Add(time.Hour).Format(time.RFC3339)
	n.Spec.Unschedulable = false
	require.Equal(t, "somebody has uncordoned it", uncordonReason(n, noon, true, "", keeps))
	patch, err = uncordonPatch(n)
	require.NoError(t, err)
	n = patched(t, n, patch)
	require.Empty(t, n.Annotations)
	require.False(t, n.Spec.Unschedulable)

	foreign := node(1, "a")
	foreign.Spec.Unschedulable = true
	require.Empty(t, uncordonReason(foreign, noon.Add(1000*time.Hour), true, "", func(string) string { return "no" }), "it is not ours")
}

// patched is a node after a merge patch.
func patched(t *testing.T, n *v1.Node, patch []byte) *v1.Node {
	t.Helper()
	before, err := json.Marshal(n)
	require.NoError(t, err)
	after, err := jsonpatch.MergePatch(before, patch)
	require.NoError(t, err)
	out := &v1.Node{}
	require.NoError(t, json.Unmarshal(after, out))
	return out
}
