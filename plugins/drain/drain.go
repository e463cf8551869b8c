package drain

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

// Outcomes of a drain, as labels of metrics.
const (
	done      = "done"       // the node is empty; the pod is on its node
	notNeeded = "not-needed" // the pod is deleted, or is on another node
	disabled  = "disabled"   // the policy no longer enables it
	refused   = "refused"    // an eviction: by a disruption budget, a limit, the API server
	lost      = "lost"       // room or node: taken by others, or the node is cordoned, deleted, planned
	changed   = "changed"    // a pod that was to move
	late      = "late"       // a pod did not end, or its replacement did not arrive or is not ready
	stopped   = "stopped"    // with the scheduler, or by a Rebalance
)

const (
	// progressTimeout is the timeout for an expected change: a cordon, room, the end of a limit, a replacement that
	// has a node and starts.
	progressTimeout = 5 * time.Minute
	// replacementTimeout is how long an evicted pod and its replacement have in addition to the pod's termination time.
	replacementTimeout = 2 * time.Minute
	// strandedTimeout is how long a replacement may fit on no node: the scheduler tries it several times. Its place
	// is lost, and the only room may be on the node being emptied.
	strandedTimeout = 15 * time.Second
	// missingTimeout is how long there may be no replacement at all after a pod has ended: controllers make one in
	// seconds, unless a quota or a webhook forbids it or the workload has become smaller.
	missingTimeout = time.Minute
	// refusalTTL is the time from a refusal of the filters until they run again for that replacement.
	refusalTTL = 10 * time.Second
	// lostAnswerTimeout is the time after which a pod that still runs counts as not evicted: in a chain always, in
	// the drain of a node if the eviction's answer was lost.
	lostAnswerTimeout = 15 * time.Second
	// emptyTTL is how long an emptied node stays cordoned, for somebody to remove it.
	emptyTTL = time.Hour
)

// A movedPod is a pod that moves, and after a move its replacement.
type movedPod struct{ pod *v1.Pod }

// A move has a pod evicted, whose replacement is to land on a node.
type move struct {
	moved       *movedPod
	to, group   string
	begun, done bool
	uncertain   bool          // the answer to the eviction was lost
	at          time.Time     // of the eviction
	within      time.Duration // from then the replacement must be ready
	landed      types.UID     // of the first replacement that was seen before it was ready
	maxGrace    time.Duration

	refusal   string    // why a filter refuses the replacement
	refusedAt time.Time // when it did
}

func (m *move) away() bool { return m.begun && !m.done }

// timeout is how long a move that has not begun may take.
func (m *move) timeout() time.Duration {
	return podspec.Patience(m.moved.pod, m.maxGrace) + replacementTimeout
}

type stage int

const (
	starting stage = iota
	cordoned
	reserved // and its pods move
	ending
	complete
	givenUp
)

// A drain evicts pods one after the other, whose replacements land on planned nodes: the pods of a node, which it
// empties, or those of an eviction chain, which makes room for a pod that waits. Its only inputs are the arguments
// of step.
type drain struct {
	node     string // to be emptied; "" = a pod waits for room
	keeps    bool   // the node is not emptied: only the moves are made
	moves    []*move
	inFlight int

	stage         stage
	since         time.Time // of the last progress
	retryAt       time.Time // no eviction before
	strandedSince time.Time // since when a replacement fits on no node; zero = there is no such replacement
	missingSince  time.Time // since when a deleted pod has no replacement; zero = all have one
	isEmpty       bool      // the node, since the last step
	last          *move     // that was evicted
	outcome       string
	why           string // it is given up
}

// An observation is the observed state of a drain. Without a field there is no such observation.
type observation struct {
	stop     string             // why no further move may begin
	lost     string             // why the moves are no longer possible
	outcome  string             // of a drain that ends by one of these
	forfeit  bool               // then no replacement is awaited: its place is lost, or it is on its node
	complete bool               // the purpose is fulfilled
	cordoned bool               // by us
	reserved bool               // places are reserved
	empty    bool               // no evictable pod is on the node
	stranded string             // a replacement that fits on no node
	missing  string             // a deleted pod without a replacement
	running  map[types.UID]bool // pods that are to move, and are not being deleted
	arrived  []arrival          // pods that arrived at places of the drain since they are reserved
	blocked  func(*move) block  // why a pod cannot be evicted at this moment
	err      error              // of the last action
}

type arrival struct {
	pod   *v1.Pod
	group string
	ready bool
}

// A block keeps a pod from its eviction: for now, or for good with an outcome. The zero value is no block.
type block struct {
	why, outcome string
	ends         bool // with an evicted pod
}

type action int

const (
	wait          action = iota
	cordon               // the node
	reserve              // all places
	evictPod             // the pod of drain.last
	markEmpty            // the node as empty
	admitPod             // the pod that waits
	releasePlaces        // places, and uncordon
)

// step returns the next action for the state observed at a time.
func (d *drain) step(now time.Time, e observation) action {
	if d.finished() {
		return wait
	}
	if d.since.IsZero() || now.Before(d.since) { // it begins, or the clock was set back
		d.since = now
	}
	for _, m := range d.moves {
		if m.begun && now.Before(m.at) {
			m.at = now
		}
	}
	d.handleError(now, e.err)
	foreign := d.recordArrivals(now, e.arrived)
	tooLate := d.tooLate(now, &e)
	if d.stage == reserved && e.complete {
		d.stage, d.outcome = complete, done // regardless of a reason to stop the next
		return wait
	}
	if d.stage < ending {
		switch {
		case tooLate != "":
			d.giveUp(tooLate, late)
		case e.stop != "" || e.lost != "":
			d.giveUp(cmp.Or(e.stop, e.lost), e.outcome)
		case foreign != "":
			d.giveUp(foreign, changed)
		}
	}
	if d.stage < ending {
		a, why, until := d.next(now, e)
		if d.stage < ending && a != evictPod && d.count((*move).away) == 0 && !now.Before(until) {
			outcome := late
			if d.stage == reserved && a != admitPod {
				outcome = refused
			}
			d.giveUp(fmt.Sprintf("%s, for %v", why, until.Sub(d.since)), outcome)
		}
		if d.stage < ending {
			return a
		}
	}
	if d.count((*move).away) > 0 && tooLate == "" && !e.forfeit {
		return wait
	}
	if tooLate != "" && d.node == "" { // also of a chain that was to end for another reason
		d.giveUp(tooLate, late)
	}
	d.stage = givenUp
	return releasePlaces
}

// tooLate returns why the replacement of an evicted pod is no longer awaited.
func (d *drain) tooLate(now time.Time, e *observation) (why string) {
	for _, m := range d.moves {
		if m.away() && (m.uncertain || d.node == "") && e.running[m.moved.pod.UID] && now.Sub(m.at) >= lostAnswerTimeout {
			m.begun = false
			why = fmt.Sprintf("%s still runs %v after its eviction was granted", nameOf(m.moved.pod), lostAnswerTimeout)
			if m.uncertain {
				why = fmt.Sprintf("the answer to the eviction of %s was lost, and the pod still stands after %v", nameOf(m.moved.pod), lostAnswerTimeout)
			}
		}
		if m.away() && now.Sub(m.at) >= m.within {
			why = fmt.Sprintf("no replacement of %s was ready on node %s in %v", nameOf(m.moved.pod), m.to, m.within)
		}
	}
	if heldFor(&d.strandedSince, now, e.stranded != "") >= strandedTimeout {
		why = cmp.Or(why, fmt.Sprintf("%s, which replaces a pod, has fit on no node for %v", e.stranded, strandedTimeout))
	}
	if heldFor(&d.missingSince, now, e.missing != "") >= missingTimeout {
		why = cmp.Or(why, fmt.Sprintf("there has been no replacement of %s for %v", e.missing, missingTimeout))
	}
	return why
}

// heldFor returns for how long a condition has held; since is the time when it was first seen.
func heldFor(since *time.Time, now time.Time, is bool) time.Duration {
	switch {
	case !is:
		*since = time.Time{}
		return 0
	case since.IsZero() || now.Before(*since):
		*since = now
	}
	return now.Sub(*since)
}

// allowed is the timeout for an expected change. That of a chain is short: its reservations keep others off.
func (d *drain) allowed() time.Duration {
	if d.node == "" {
		return replacementTimeout
	}
	return progressTimeout
}

// next is the next action if nothing ends the drain, and the time at which it ends because of why if it has to wait
// until then.
func (d *drain) next(now time.Time, e observation) (a action, why string, until time.Time) {
	allowed := d.allowed()
	until = d.since.Add(allowed)
	switch {
	case d.stage == starting && !e.cordoned:
		if now.Before(d.retryAt) {
			return wait, "it could not be cordoned", until
		}
		d.retryAt = now.Add(10 * time.Second)
		return cordon, "it could not be cordoned", until
	case d.stage == starting:
		d.stage, d.since = cordoned, now
		return reserve, "", now.Add(allowed)
	case d.stage == cordoned && !e.reserved:
		return reserve, "its places could not be reserved", until
	case d.stage == cordoned:
		d.stage, d.since, d.retryAt = reserved, now, time.Time{}
		until = now.Add(allowed)
	}
	ends := until // evicted pods may still be ending
	for _, m := range d.moves {
		if at := m.at.Add(m.within); m.begun && at.After(ends) {
			ends = at
		}
	}
	i := slices.IndexFunc(d.moves, func(m *move) bool { return !m.begun })
	switch {
	case i < 0 && d.node == "":
		return admitPod, "the pod did not come to its node", ends
	case i < 0 && d.count((*move).away) > 0:
		return wait, "replacements are not ready", until
	case i < 0 && !e.empty:
		d.isEmpty = false
		return wait, "pods are still ending on it", ends
	case i < 0:
		if !d.isEmpty {
			d.isEmpty, d.since = true, now
			until = now.Add(allowed)
		}
		return markEmpty, "it could not be marked as empty", until
	}
	m := d.moves[i]
	same := slices.ContainsFunc(d.moves, func(o *move) bool { return o.away() && o.group == m.group })
	if d.count((*move).away) >= d.inFlight || same || now.Before(d.retryAt) {
		return wait, "an eviction of " + nameOf(m.moved.pod) + " was refused", until
	}
	switch b := e.blocked(m); {
	case b.outcome != "":
		d.giveUp(b.why, b.outcome)
		return wait, "", until
	case b.ends: // a cycle of the pod that waits shows that it has
		return admitPod, b.why, ends
	case b.why != "":
		return wait, b.why, until
	}
	d.last, m.begun, m.uncertain, m.at, m.within = m, true, false, now, m.timeout()
	return evictPod, "", until
}

// handleError handles the error of the last action. If an answer was lost, the eviction may have succeeded:
// its result is awaited.
func (d *drain) handleError(now time.Time, err error) {
	var limit *evict.LimitError
	var unsure *evict.UncertainError
	if errors.As(err, &unsure) && d.last != nil {
		d.last.uncertain = true
	}
	if err == nil || d.stage >= ending || errors.As(err, &unsure) {
		return
	}
	if d.stage != reserved {
		if !evict.Passing(err) {
			d.giveUp(err.Error(), refused)
		}
		return
	}
	if d.last == nil || !d.last.away() { // marking the node: it is tried again
		return
	}
	d.last.begun = false
	if d.node != "" && errors.As(err, &limit) && !limit.Until.IsZero() && limit.Until.Sub(now) < progressTimeout {
		d.retryAt = limit.Until
		return
	}
	d.giveUp(fmt.Sprintf("%s is not evicted: %v", nameOf(d.last.moved.pod), err), refused)
}

// recordArrivals marks the moves whose replacements are ready. Replacements of one workload may take each
// other's places. It reports a pod that arrived and replaces no evicted one.
func (d *drain) recordArrivals(now time.Time, list []arrival) (foreign string) {
	known := map[types.UID]bool{}
	for _, m := range d.moves {
		known[m.moved.pod.UID] = m.done
	}
	waits := map[string]int{} // replacements that may come, by group
	for _, m := range d.moves {
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
		at := func(want func(*move) bool) *move {
			if i := slices.IndexFunc(d.moves, func(m *move) bool { return !m.done && m.group == a.group && want(m) }); i >= 0 {
				return d.moves[i]
			}
			return nil
		}
		if !a.ready {
			if m := at(func(m *move) bool { return m.away() && m.landed == "" || m.landed == a.pod.UID }); m != nil && m.landed == "" {
				m.landed, m.within = a.pod.UID, max(m.within, now.Sub(m.at)+d.allowed()) // it has a node, and starts
			}
			continue
		}
		m := at(func(m *move) bool { return m.begun && m.to == a.pod.Spec.NodeName })
		if m == nil {
			m = at((*move).away)
			if o := at(func(m *move) bool { return m.to == a.pod.Spec.NodeName }); o != nil {
				m.to, o.to = o.to, m.to
			}
		}
		m.done, m.moved.pod, d.since = true, a.pod, now
	}
	return ""
}

func (d *drain) giveUp(why, outcome string) { d.stage, d.why, d.outcome = ending, why, outcome }

func (d *drain) finished() bool { return d.stage >= complete }

func (d *drain) count(is func(*move) bool) (n int) {
	for _, m := range d.moves {
		if is(m) {
			n++
		}
	}
	return n
}

func nameOf(p *v1.Pod) string { return p.Namespace + "/" + p.Name }
