package control

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/internal/evidence"
	"github.com/sigma-scheduler/sigma/internal/tune"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
	"github.com/sigma-scheduler/sigma/plugins/pilot/page"
	"github.com/sigma-scheduler/sigma/plugins/pilot/record"
)

const (
	day = 24 * time.Hour
	// before is how much of the record a judgement replays ahead of the days that judge: the
	// candidate takes over there.
	before = 5 * day
	// ahead is how many days a promise is for, and share the probability that the outcome lies in its
	// interval.
	ahead = 7
	share = .9
	// retry is the wait before a failed job that the loop does not wait for runs again.
	retry = 5 * time.Minute
	// Names of jobs; a training has that of the loop.
	studying, following, regretting, judging = "study", "follow", "regret", "judge-"
)

// A worker runs the long jobs, one at a time, and keeps the outcomes. Its methods may be called while
// a job runs.
type worker struct {
	shelf    shelf
	baseline string

	mu      sync.Mutex
	job     string // that runs; "" = none
	cancel  context.CancelFunc
	failed  map[string]failure // jobs that are no training and no judgement, to be tried again later
	days    []pilot.Day
	through time.Time // the beginning of the last day that was studied
	trained *pilot.Trained
	waits   string // reason why the Job of a training waits; "" = there is none
	verdict *pilot.Verdict
	drift   *pilot.Drift
	live    live
	paths   paths
	regret  *regret
	unsaved bool // live
	history page.History
	shown   []byte // the page
}

// A failure is that of a job.
type failure struct {
	at  time.Time
	why string
}

// live is the active policy: since when, the one before, and its saving against that.
type live struct {
	Digest   string        `json:"digest"`
	Before   string        `json:"before"`
	Since    time.Time     `json:"since"`
	Realised *pilot.Saving `json:"realised,omitempty"`
	Days     int           `json:"days,omitempty"`
}

func newWorker(s shelf, baseline string) (*worker, error) {
	w := &worker{shelf: s, baseline: baseline, failed: map[string]failure{}}
	return w, errors.Join(s.load(trainedFile, &w.trained), s.load(verdictFile, &w.verdict), s.load(liveFile, &w.live), s.load(regretFile, &w.regret), s.load(historyFile, &w.history))
}

// start runs a job unless one runs. A panic of it is its error.
func (w *worker) start(ctx context.Context, name string, do func(context.Context) error, done func(error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.job != "" {
		return
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.job = name
	go func() {
		err := func() (err error) {
			defer func() {
				if r := recover(); r != nil {
					err = fmt.Errorf("panic: %v", r)
				}
			}()
			return do(ctx)
		}()
		ended := ctx.Err() != nil
		w.mu.Lock()
		defer w.mu.Unlock()
		w.cancel()
		w.job = ""
		if !ended { // one that was stopped has no outcome
			done(err)
		}
	}()
}

// stop ends a training or a judgement that runs, unless it has the name; if a name is given, it also
// ends the computation of the regret.
func (w *worker) stop(unless string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.job != unless && (strings.HasPrefix(w.job, "train-") || strings.HasPrefix(w.job, judging)) || unless != "" && w.job == regretting {
		w.cancel()
	}
}

// close ends the job that runs.
func (w *worker) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.job != "" {
		w.cancel()
	}
}

// side runs a job that nothing waits for; one that failed is tried again after some minutes.
func (w *worker) side(ctx context.Context, name string, now time.Time, do func(context.Context) error) {
	w.mu.Lock()
	f, ok := w.failed[name]
	w.mu.Unlock()
	if ok && now.Sub(f.at) < retry {
		return
	}
	w.start(ctx, name, do, func(err error) {
		if delete(w.failed, name); err != nil {
			w.failed[name] = failure{now, err.Error()}
		}
	})
}

// prune removes policies that the loop needs no longer, while no job runs that may read them.
func (w *worker) prune(s *pilot.State) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.job != "" {
		return nil
	}
	needed := []string{s.InForce, s.Confirmed, s.Candidate, s.LastGood, w.live.Digest, w.live.Before}
	if w.trained != nil {
		needed = append(needed, w.trained.Candidate)
	}
	return w.shelf.prune(needed...)
}

// policyOf is the policy of a digest; of "" the rule that replaces the scheduler's own scores.
func (w *worker) policyOf(digest string) (binpack.Policy, error) {
	if digest == "" {
		return builtIn(w.baseline)
	}
	o, err := w.shelf.policy(digest)
	if err != nil {
		return nil, err
	}
	return o.Policy()
}

// study makes the traces of new days, looks for a change of the workload, and computes the saving of
// the active policy.
func (w *worker) study(l *record.Log, s *record.Segments, days []record.Day, now time.Time) (func(context.Context) error, error) {
	last := days[len(days)-1].Start
	whole, err := l.Window(days[0].Start, last.Add(day))
	if errors.Is(err, record.ErrNothing) { // all of them have gaps
		whole.From = last.Add(day)
	} else if err != nil {
		return nil, err
	}
	known := days[int(whole.From.Sub(days[0].Start)/day):] // those that the window has
	return func(ctx context.Context) error {
		if err := s.Complete(ctx); ctx.Err() != nil {
			return err
		} else if err != nil { // the other days serve
			klog.FromContext(ctx).Error(err, "Cannot make the trace of a day")
		}
		var list []pilot.Day
		bounds := map[time.Time]float64{} // of the days that the page lacks
		for _, g := range s.List() {
			if g.Start.Before(days[0].Start) || g.Start.After(last) || g.Digest == "" {
				continue
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			list = append(list, pilot.Day{Start: g.Start, Digest: g.Digest, Gap: g.Gap})
			if w.counted(g.Start) || g.Gap != "" {
				continue
			}
			t, err := trace.Load(s.Trace(g))
			if err != nil {
				return err
			}
			bounds[g.Start] = evidence.Bound(t) / day.Hours()
		}
		current, drift := w.inForce(), &pilot.Drift{At: now}
		if len(known) > 0 {
			t, err := whole.Trace("record")
			if err != nil {
				return err
			}
			if drift, err = changes(t, whole.From, len(known), now); err != nil {
				return err
			}
			if err := w.realise(t, whole.From, known, &current); err != nil {
				return err
			}
			if err := w.count(t, known, bounds); err != nil { // the loop does not depend on the page
				klog.FromContext(ctx).Error(err, "Cannot count days for the page")
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.days, w.through, w.drift = list, last, drift
		if w.live.Digest == current.Digest {
			w.live = current
		}
		return w.shelf.save(liveFile, w.live)
	}, nil
}

// changes are the last change of the workload that a trace of some days shows.
func changes(t *trace.Trace, begin time.Time, days int, now time.Time) (*pilot.Drift, error) {
	m, err := evidence.NewMonitor(t)
	if err != nil {
		return nil, err
	}
	out := &pilot.Drift{At: now}
	for d := range days {
		change, err := m.Until(float64(d+1) * day.Seconds())
		if err != nil {
			return nil, err
		}
		if change != nil {
			out.Changed, out.Since = change.Text, begin.Add(bounded.Seconds(change.Since))
		}
	}
	return out, nil
}

func (w *worker) inForce() live {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live
}

// noteLive records the active policy and the one before. If it cannot be saved, the next step saves
// it.
func (w *worker) noteLive(digest, was string, now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.live.Digest != digest {
		w.live, w.unsaved = live{Digest: digest, Before: was, Since: now}, true
	}
	if !w.unsaved {
		return nil
	}
	err := w.shelf.save(liveFile, w.live)
	w.unsaved = err != nil
	return err
}

// realise replays the whole days since a policy became active under it and under the one before. Two
// days are the least: the interval is over days.
func (w *worker) realise(t *trace.Trace, begin time.Time, days []record.Day, l *live) error {
	first := -1
	for i, d := range days {
		if first < 0 && !d.Start.Before(l.Since) && d.Gap == "" {
			first = i
		}
		if d.Gap != "" {
			first = -1
		}
	}
	n := len(days) - first
	if l.Digest == "" || first < 0 || n < 2 || n == l.Days {
		return nil
	}
	from := days[first].Start.Sub(begin).Seconds()
	_, accounts, err := w.accounts(t, l.Before, max(0, from-before.Seconds()), from, n, l.Digest, l.Before)
	if err != nil {
		return err
	}
	s := evidence.Saving(accounts[0], accounts[1], .95, 1)
	l.Realised, l.Days = finite(s), n
	return nil
}

// accounts are those of policies by digest, which take over from another at a time of the trace.
func (w *worker) accounts(t *trace.Trace, inForce string, takeover, from float64, days int, digests ...string) (trial *evidence.Trial, list []evidence.Account, err error) {
	present, err := w.policyOf(inForce)
	if err != nil {
		return nil, nil, err
	}
	if trial, err = evidence.NewTrial(t, present, takeover, from, day.Seconds(), days); err != nil {
		return nil, nil, err
	}
	for _, digest := range digests {
		p, err := w.policyOf(digest)
		if err != nil {
			return nil, nil, err
		}
		a, err := trial.Run(p)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, a)
	}
	return trial, list, nil
}

// finite is an interval as a saving; nil if a number of it is not finite.
func finite(i tune.Interval) *pilot.Saving {
	for _, v := range []float64{i.Mean, i.Low, i.High} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
	}
	return &pilot.Saving{Mean: i.Mean, Low: i.Low, High: i.High}
}
