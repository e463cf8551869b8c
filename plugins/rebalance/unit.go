package rebalance

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/plugins/evict"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

const (
	// stuck is the timeout for an expected change: a cordon, room, the end of a limit. A replacement
	// has that long in addition to the termination time of the evicted pod.
	stuck = 5 * time.Minute
	// strands is how long a replacement may fit on no node: the scheduler tries it several times. Its place
	// is lost, and the only room may be on the node being emptied.
	strands = 15 * time.Second
	// missing is how long there may be no replacement at all after a pod has ended: controllers make one in
	// seconds, unless a quota or a webhook forbids it or the workload has become smaller.
	missing = time.Minute
	// unfitFor is the time from a refusal of the filters until they run again for that replacement.
	unfitFor = 10 * time.Second
	// unseen is the time after which a pod that still runs, and whose eviction's answer was lost,
	// counts as not evicted.
	unseen = 15 * time.Second
	// keepEmpty is how long an emptied node stays cordoned, for somebody to remove it.
	keepEmpty = time.Hour
)

// An item is a pod that moves, and after a move its replacement.
type item struct{ pod *v1.Pod }

// A move has a pod evicted, whose replacement is to land on a node.
type move struct {
	item        *item
	to, group   string
	begun, done bool
	unsure      bool      // the answer to the eviction was lost
	at          time.Time // of the eviction
	maxGrace    time.Duration

	unfit string    // why a filter refuses the replacement
	asked time.Time // when it did
}

func (m *move) away() bool { return m.begun && !m.done }

// patience is how long a move may take.
func (m *move) patience() time.Duration { return podspec.Patience(m.item.pod, m.maxGrace) + stuck }

type stage int

const (
	starting stage = iota
	cordoned
	held // and its pods move
	ending
	emptied
	givenUp
)

// A unit is a node with the moves that empty it, in their order. Its only inputs are the arguments of
// step.
type unit struct {
	node     string
	moves    []*move
	inFlight int

	stage   stage
	since   time.Time // of the last progress
	again   time.Time // no eviction before
	nowhere time.Time // since when a replacement fits on no node; zero = there is no such replacement
	without time.Time // since when a deleted pod has no replacement; zero = all have one
	last    *move     // that was evicted
	why     string    // it is given up
	refused bool      // by a budget, a limit or the API server
}

// Evidence is the observed state of a unit.
type evidence struct {
	stop     string             // why no further move may begin
	lost     string             // why the moves are no longer possible
	cordoned bool               // by us
	held     bool               // places are reserved
	marked   bool               // the node is marked as empty
	empty    bool               // no evictable pod is on the node
	stranded string             // a replacement that fits on no node
	missing  string             // a deleted pod without a replacement
	stands   map[types.UID]bool // pods that are to move, and are not being deleted
	arrived  []arrival          // pods that arrived at places of the unit since they are reserved
	blocked  func(*move) string // why a pod cannot be evicted at this moment
	err      error              // of the last action
}

type arrival struct {
	pod   *v1.Pod
	group string
	ready bool
}

type act int

const (
	wait    act = iota
	cordon      // the node
	hold        // all places
	evictIt     // the pod of unit.last
	mark        // the node as empty
	release     // places, and uncordon
)

// step returns the next action for the state observed at a time.
func (u *unit) step(now time.Time, e evidence) act {
	if u.over() {
		return wait
	}
	if u.since.IsZero() || now.Before(u.since) { // it begins, or the clock was set back
		u.since = now
	}
	late := ""
	for _, m := range u.moves {
		if m.away() && now.Before(m.at) {
			m.at = now
		}
	}
	u.heed(now, e.err)
	foreign := u.arrive(now, e.arrived)
	for _, m := range u.moves {
		if m.away() && m.unsure && e.stands[m.item.pod.UID] && now.Sub(m.at) >= unseen {
			m.begun = false
			late = fmt.Sprintf("the answer to the eviction of %s was lost, and the pod still stands after %v", nameOf(m.item.pod), unseen)
		}
		if m.away() && now.Sub(m.at) >= m.patience() {
			late = fmt.Sprintf("no replacement of %s was ready on node %s in %v", nameOf(m.item.pod), m.to, m.patience())
		}
	}
	if lasts(&u.nowhere, now, e.stranded != "") >= strands {
		late = cmp.Or(late, fmt.Sprintf("%s, which replaces a pod, has fit on no node for %v", e.stranded, strands))
	}
	if lasts(&u.without, now, e.missing != "") >= missing {
		late = cmp.Or(late, fmt.Sprintf("there has been no replacement of %s for %v", e.missing, missing))
	}
	if u.stage == held && e.empty && e.marked && u.count(func(m *move) bool { return m.done }) == len(u.moves) {
		u.stage = emptied // regardless of a reason to stop the next
		return wait
	}
	if u.stage < ending {
		if why := cmp.Or(late, e.stop, e.lost, foreign); why != "" {
			u.end(why, false)
		}
	}
	if u.stage == ending {
		if u.count((*move).away) > 0 && late == "" {
			return wait
		}
		u.stage = givenUp
		return release
	}
	a, what := u.next(now, e)
	if a != evictIt && u.count((*move).away) == 0 && now.Sub(u.since) >= stuck {
		u.end(fmt.Sprintf("%s, for %v", what, stuck), u.stage == held)
		u.stage = givenUp
		return release
	}
	return a
}

// lasts returns for how long a condition has held; since is the time when it was first seen.
func lasts(since *time.Time, now time.Time, is bool) time.Duration {
	switch {
	case !is:
		*since = time.Time{}
		return 0
	case since.IsZero() || now.Before(*since):
		*since = now
	}
	return now.Sub(*since)
}

// next is the next action if nothing ends the unit, and the reason if it has to wait.
func (u *unit) next(now time.Time, e evidence) (a act, what string) {
	switch {
	case u.stage == starting && !e.cordoned:
		if now.Before(u.again) {
			return wait, "it could not be cordoned"
		}
		u.again = now.Add(10 * time.Second)
		return cordon, "it could not be cordoned"
	case u.stage == starting:
		u.stage, u.since = cordoned, now
		return hold, ""
	case u.stage == cordoned && !e.held:
		return hold, ""
	case u.stage == cordoned:
		u.stage, u.since, u.again = held, now, time.Time{}
	}
	i := slices.IndexFunc(u.moves, func(m *move) bool { return !m.begun })
	switch {
	case i < 0 && u.count((*move).away) > 0:
		return wait, "replacements are not ready"
	case i < 0 && !e.empty:
		return wait, "pods are still ending on it"
	case i < 0:
		return mark, "it could not be marked as empty"
	}
	m := u.moves[i]
	same := slices.ContainsFunc(u.moves, func(o *move) bool { return o.away() && o.group == m.group })
	if u.count((*move).away) >= u.inFlight || same || now.Before(u.again) {
		return wait, "an eviction of " + nameOf(m.item.pod) + " was refused"
	}
	if why := e.blocked(m); why != "" {
		return wait, why
	}
	u.last, m.begun, m.unsure, m.at, u.since = m, true, false, now, now
	return evictIt, ""
}

// heed handles the error of the last action. If an answer was lost, the eviction may have succeeded:
// its result is awaited.
func (u *unit) heed(now time.Time, err error) {
	var limit *evict.LimitError
	var unsure *evict.UncertainError
	if errors.As(err, &unsure) && u.last != nil {
		u.last.unsure = true
	}
	if err == nil || u.stage >= ending || errors.As(err, &unsure) {
		return
	}
	if u.stage != held {
		if !evict.Passing(err) {
			u.end(err.Error(), true)
		}
		return
	}
	if u.last == nil || !u.last.away() { // marking the node: it is tried again
		return
	}
	u.last.begun = false
	if errors.As(err, &limit) && !limit.Until.IsZero() && limit.Until.Sub(now) < stuck {
		u.again = limit.Until
		return
	}
	u.end(fmt.Sprintf("%s is not evicted: %v", nameOf(u.last.item.pod), err), true)
}

// arrive marks the moves whose replacements are ready. Replacements of one workload may take each
// other's places. It reports a pod that arrived and replaces no evicted one.
func (u *unit) arrive(now time.Time, list []arrival) (foreign string) {
	known := map[types.UID]bool{}
	for _, m := range u.moves {
		known[m.item.pod.UID] = m.done
	}
	waits := map[string]int{} // replacements that may come, by group
	for _, m := range u.moves {
		if m.away() {
			waits[m.group]++
		}
	}
	for _, a := range list {
		if known[a.pod.UID] {
			continue
		}
		if waits[a.group]--; waits[a.group] < 0 {
			return fmt.Sprintf("%s took a place on node %s that was for another pod", nameOf(a.pod), a.pod.Spec.NodeName)
		}
		if !a.ready {
			continue
		}
		at := func(want func(*move) bool) *move {
			if i := slices.IndexFunc(u.moves, func(m *move) bool { return !m.done && m.group == a.group && want(m) }); i >= 0 {
				return u.moves[i]
			}
			return nil
		}
		m := at(func(m *move) bool { return m.begun && m.to == a.pod.Spec.NodeName })
		if m == nil {
			m = at((*move).away)
			if o := at(func(m *move) bool { return m.to == a.pod.Spec.NodeName }); o != nil {
				m.to, o.to = o.to, m.to
			}
		}
		m.done, m.item.pod, u.since = true, a.pod, now
	}
	return ""
}

func (u *unit) end(why string, refused bool) { u.stage, u.why, u.refused = ending, why, refused }

func (u *unit) over() bool { return u.stage >= emptied }

func (u *unit) count(is func(*move) bool) (n int) {
	for _, m := range u.moves {
		if is(m) {
			n++
		}
	}
	return n
}

func nameOf(p *v1.Pod) string { return p.Namespace + "/" + p.Name }
