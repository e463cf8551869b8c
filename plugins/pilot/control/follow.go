package control

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/internal/evidence"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
	"github.com/sigma-scheduler/sigma/plugins/pilot/record"
)

// The trajectories of a pilot, by name: the recorded placement, and the placements if another
// policy had decided since the step began.
const (
	pathCurrent   = "current"
	pathInForce   = "inForce"   // where it does not decide on all pods: next to a candidate
	pathBefore    = "before"    // the one before the active policy
	pathCandidate = "candidate" // in shadow and as a canary
	pathBestFit   = "bestfit"
)

const (
	// far is how long a trajectory may be. It begins later from then on, by whole days.
	far = 7 * day
	// busy is the least ratio of the time from one replay to the next to the time that one takes.
	busy = 10
	// few is added to counts of opened nodes: the ratio of one or two nodes is meaningless.
	few = 5
)

// paths are the trajectories up to a decision.
type paths struct {
	digest string    // of the policy that the guard checks
	since  time.Time // the step that they are of
	from   time.Time
	at     time.Time // of the newest decision
	begun  time.Time // when the replays began
	took   time.Duration
	of     map[string]evidence.Trajectory
}

// fresh reports whether they are of a policy in a step.
func (p *paths) fresh(digest string, since time.Time) bool {
	return p.digest == digest && p.since.Equal(since) && p.of != nil
}

// ratios are those of a trajectory and of Best-Fit's, in nodes opened and in cost; nil = not known.
func (p *paths) ratios(name string) (opened, cost *float64) {
	own, ok := p.of[name]
	other, has := p.of[pathBestFit]
	if !ok || !has {
		return nil, nil
	}
	return new(ratio(own.Opened, other.Opened)), number(own.Spent / other.Spent)
}

func ratio(opened, bestFit int) float64 { return float64(opened+few) / float64(bestFit+few) }

// subjects are the policies to follow in a state, by trajectory; "" = the baseline.
func subjects(s *pilot.State, l *live) map[string]string {
	switch s.Phase {
	case pilot.Shadowing, pilot.Canarying:
		return map[string]string{pathInForce: s.InForce, pathCandidate: s.Candidate}
	case pilot.GoingLive:
		return map[string]string{pathBefore: s.LastGood}
	default:
		return map[string]string{pathBefore: l.Before}
	}
}

// follow returns the trajectories that are known of a state, without any the zero value, and has them
// replayed up to the newest decision where that is due.
func (r *reconciler) follow(l *loop, s *pilot.Settings, state *pilot.State, newest, now time.Time) paths {
	w := l.worker
	w.mu.Lock()
	last, lives := w.paths, w.live
	w.mu.Unlock()
	since := state.Since
	if state.Phase != pilot.Shadowing && state.Phase != pilot.Canarying && state.Phase != pilot.GoingLive && lives.Digest == state.InForce {
		since = lives.Since
	}
	digest := subject(state)
	known := last.fresh(digest, since)
	if !known {
		last = paths{}
	}
	if newest.IsZero() {
		return last
	}
	if wait := max(s.Watch, busy*last.took); known && (!newest.After(last.at) || now.Sub(last.begun) < wait && !now.Before(last.begun)) {
		return last
	}
	from := since
	if oldest := newest.Add(-far); from.Before(oldest) {
		from = oldest.Truncate(day).Add(day)
	}
	window, err := l.log.Window(from.Truncate(time.Second), newest.Add(2*time.Second))
	if err != nil {
		return last // nothing is recorded of it yet
	}
	p := paths{digest: digest, since: since, from: from, at: newest, begun: now}
	w.side(r.ctx, following, now, w.replay(window, p, subjects(state, &lives)))
	return last
}

// replay replays a part of the record under policies given by digest, Best-Fit and the recorded
// placement.
func (w *worker) replay(window record.Window, p paths, by map[string]string) func(context.Context) error {
	return func(ctx context.Context) error {
		begin := clock.RealClock{}.Now() // the duration is real even if now is an argument
		t, err := window.Trace("trajectory")
		if err != nil {
			return err
		}
		stands, err := evidence.Recorded(t)
		if err != nil {
			return err
		}
		packed, err := builtIn("bestfit")
		if err != nil {
			return err
		}
		policies := map[string]binpack.Policy{pathCurrent: stands, pathBestFit: packed}
		for name, digest := range by {
			if policies[name], err = w.policyOf(digest); err != nil {
				return err
			}
		}
		p.of = map[string]evidence.Trajectory{}
		for _, name := range slices.Sorted(maps.Keys(policies)) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if p.of[name], err = evidence.Follow(t, policies[name]); err != nil {
				return err
			}
		}
		p.took = clock.RealClock{}.Since(begin)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.paths = p
		return nil
	}
}
