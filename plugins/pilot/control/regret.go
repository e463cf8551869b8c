package control

import (
	"context"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/internal/evidence"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
	"github.com/sigma-scheduler/sigma/plugins/pilot/record"
)

// Of the days that regret is of: the newest judge, and those before are learned from, the last of
// them to choose.
const regretDays, regretLessons = 2, 7

// A regret is the saving that a policy retrained on the week before would have had over the active
// one.
type regret struct {
	InForce string       `json:"inForce"`
	Through time.Time    `json:"through"` // the beginning of the newest day
	At      time.Time    `json:"at"`
	Saving  pilot.Saving `json:"saving"`
	Days    []string     `json:"days"` // digests
}

// withRegret is a drift with the regret of the active policy.
func withRegret(d *pilot.Drift, r *regret, s *pilot.State) *pilot.Drift {
	if d == nil || r == nil || r.InForce != s.InForce || !r.At.After(s.Trained) {
		return d
	}
	out := *d
	out.At = r.At
	if d.At.After(r.At) {
		out.At = d.At
	}
	out.Regret, out.Days = &r.Saving, r.Days
	return &out
}

// findRegret retrains once a day while nothing else is on its way.
func (r *reconciler) findRegret(o *v1alpha1.PolicyPilot, l *loop, s *pilot.Settings, state *pilot.State, days []pilot.Day, now time.Time) {
	n := len(days)
	if s.Guard.RegretPercent == nil || state.Phase != pilot.Watching || state.InForce == "" || n < regretDays+regretLessons {
		return
	}
	days = days[n-regretDays-regretLessons:]
	last := days[len(days)-1].Start
	w := l.worker
	w.mu.Lock()
	done := w.regret != nil && w.regret.InForce == state.InForce && w.regret.Through.Equal(last)
	w.mu.Unlock()
	row := days[0].Start.Add(time.Duration(len(days)-1)*day).Equal(last) && !days[0].Start.Before(state.Workload)
	if done || !row || slices.ContainsFunc(days, func(d pilot.Day) bool { return d.Gap != "" }) {
		return
	}
	begin, from := days[0].Start, days[regretLessons].Start
	lessons, err := l.log.Window(begin, from)
	if err != nil {
		return
	}
	all, err := l.log.Window(begin, last.Add(day))
	if err != nil {
		return
	}
	confidence := .95
	if s.Gate != nil {
		confidence = s.Gate.Confidence
	}
	out := &regret{InForce: state.InForce, Through: last, At: now}
	for _, d := range days[regretLessons:] {
		out.Days = append(out.Days, d.Digest)
	}
	w.side(r.ctx, regretting, now, w.regretOf(out, lessons, all, confidence, int(o.Spec.Train.Evaluations), int(o.Spec.Train.Seeds)))
}

// regretOf retrains on lessons, and replays the days after them under the resulting policy.
func (w *worker) regretOf(out *regret, lessons, all record.Window, confidence float64, evaluations, seeds int) func(context.Context) error {
	return func(ctx context.Context) error {
		t, err := lessons.Trace(regretting)
		if err != nil {
			return err
		}
		o, _, err := evidence.Learn(ctx, evidence.Lesson{
			History: t, Choose: day, InForce: w.shelf.file(out.InForce), Evaluations: evaluations, Seeds: seeds, Seed: 1, Workers: 1, Name: regretting,
		})
		if err != nil {
			return err
		}
		if o != nil && o.Digest() != out.InForce { // else nothing else is better, and nothing to regret
			if t, err = all.Trace(regretting); err != nil {
				return err
			}
			present, err := w.policyOf(out.InForce)
			if err != nil {
				return err
			}
			p, err := o.Policy()
			if err != nil {
				return err
			}
			from := lessons.Until.Sub(lessons.From).Seconds()
			trial, err := evidence.NewTrial(t, present, 0, from, day.Seconds(), regretDays)
			if err != nil {
				return err
			}
			own, err := trial.Run(p)
			if err != nil {
				return err
			}
			other, err := trial.Run(present)
			if err != nil {
				return err
			}
			if s := finite(evidence.Saving(own, other, confidence, 1)); s != nil {
				out.Saving = *s
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.regret = out
		return w.shelf.save(regretFile, out)
	}
}
